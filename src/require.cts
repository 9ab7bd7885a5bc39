// What require() loads in a Node.js that cannot load ES modules with it, which is before 20.19 and 22.12.
throw Object.assign(
  new Error(
    `Sluice consists of ES modules, which Node.js ${process.versions.node} cannot load with require(). ` +
      'Load it with "await import(...)", or use Node.js 20.19, 22.12 or newer.',
  ),
  { code: 'ERR_REQUIRE_ESM' },
)
