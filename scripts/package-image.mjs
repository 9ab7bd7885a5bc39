// Builds the container image of each architecture with podman or docker, and saves it: sluice_VERSION_ARCH.image.tar,
// for `podman load -i` and `docker load -i`. With podman, the same input gives the same image.
//
//   node scripts/package-image.mjs [--with podman|docker] [--arch ARCH]... [--name NAME] [--out FOLDER]
//     [--version VERSION] [--built FOLDER]
//
// --arch is amd64 or arm64, by default both. --name is that of the image, by default localhost/sluice; its tags are
// VERSION-ARCH. --built names a folder of built files; without it the checkout is prepared first. SOURCE_DATE_EPOCH is the
// time of everything in the image, without it that of the last commit. The libraries of C and C++ are those of the Debian
// that this runs on, in their current version.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { programOptions } from './options.mjs'
import {
  ARCHITECTURES,
  epoch,
  files,
  LIB,
  licences,
  manifest,
  nodeFor,
  OWN_NODE,
  prepare,
  ROOT,
  settle,
  stageNode,
  stageProgram,
  write,
} from './staged.mjs'

const FOLDER = join(ROOT, 'config/container')
const LIBRARIES = ['libc6', 'libgcc-s1', 'libstdc++6']
/** Of them: what Node.js loads, and the licences. */
const TAKEN = /\/(ld-linux[^/]*|lib(c|m|dl|pthread|rt|resolv|gcc_s|stdc\+\+))\.so[.\d]*$|\/copyright$/
const FILES = {
  'etc/passwd': 'root:x:0:0:root:/:/bin/false\nsluice:x:65532:65532:Sluice:/var/lib/sluice:/bin/false\n',
  'etc/group': 'root:x:0:\nadm:x:4:\nsluice:x:65532:\n',
  'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

const { values: options } = programOptions({
  options: {
    with: { type: 'string' },
    arch: { type: 'string', multiple: true, default: Object.keys(ARCHITECTURES) },
    name: { type: 'string', default: 'localhost/sluice' },
    out: { type: 'string', default: join(ROOT, 'dist') },
    version: { type: 'string', default: manifest.version },
    built: { type: 'string' },
  },
})
const { version, out } = options
const built = resolve(options.built ?? join(ROOT, 'dist'))

const works = tool => {
  try {
    return execFileSync(tool, ['version'], { stdio: 'ignore' }) === null
  } catch {
    return false
  }
}

/** Unpacks the libraries of Debian for that architecture, with an apt that knows nothing of this machine's packages. */
function stageLibraries(stage, arch, scratch) {
  const apt = (...args) => {
    const own = [
      `APT::Architecture=${arch}`,
      `APT::Architectures::=${arch}`,
      `Dir::State=${scratch}`,
      `Dir::Cache=${scratch}`,
    ]
    const all = [...own, 'Dir::State::status=/dev/null', 'APT::Sandbox::User=root'].flatMap(option => ['-o', option])
    execFileSync('apt-get', ['-qq', ...all, ...args], { cwd: scratch, stdio: ['ignore', 2, 2] })
  }
  for (const name of ['lists/partial', 'archives/partial']) fs.mkdirSync(join(scratch, name), { recursive: true })
  apt('update')
  apt('download', ...LIBRARIES)
  for (const name of fs.readdirSync(scratch).filter(name => name.endsWith('.deb')))
    execFileSync('dpkg-deb', ['--extract', join(scratch, name), join(scratch, 'unpacked')])
  for (const path of files(join(scratch, 'unpacked'))) {
    if (!TAKEN.test(path)) continue
    // Everything is below /usr, as in a Debian of today, whichever release it comes from.
    const target = join(stage, 'usr', relative(join(scratch, 'unpacked'), path).replace(/^usr\//, ''))
    fs.cpSync(path, target, { verbatimSymlinks: true })
  }
  for (const name of ['lib', 'lib64']) {
    fs.mkdirSync(join(stage, 'usr', name), { recursive: true })
    fs.symlinkSync(`usr/${name}`, join(stage, name))
  }
}

/** The folders that the Containerfile copies. */
function stageImage(context, arch) {
  const system = join(context, 'system')
  const node = nodeFor(arch)
  stageLibraries(system, arch, join(context, 'debian'))
  stageNode(system, node)
  for (const [path, text] of Object.entries(FILES)) write(join(system, path), text)
  write(join(system, LIB, 'health.mjs'), fs.readFileSync(join(FOLDER, 'health.mjs')))
  for (const path of ['system/etc/sluice', 'system/tmp', 'system/var/lib', 'state/sluice'])
    fs.mkdirSync(join(context, path), { recursive: true })
  stageProgram(join(context, 'program'), { built, version, arch, node: OWN_NODE })
  write(join(context, 'program/usr/share/doc/sluice/copyright'), licences(node))
  fs.rmSync(join(context, 'debian'), { recursive: true })
  settle(context)
  fs.chmodSync(join(system, 'tmp'), 0o1777)
  fs.chmodSync(join(context, 'state/sluice'), 0o700)
}

/** Labels of the specification of OCI. */
function labels() {
  const { description, license, homepage, repository } = manifest
  const created = new Date(epoch * 1000).toISOString()
  const own = {
    title: 'sluice',
    description,
    licenses: license,
    version,
    created,
    url: homepage,
    source: repository.url.replace(/^git\+|\.git$/g, ''),
  }
  return Object.entries(own).flatMap(([name, text]) =>
    text ? ['--label', `org.opencontainers.image.${name}=${text}`] : [],
  )
}

/** Writes the saved image to `target`, without what is random in its description. */
function tidy(saved, scratch, target) {
  fs.mkdirSync(scratch)
  execFileSync('tar', ['-xf', saved, '-C', scratch])
  const [image] = JSON.parse(fs.readFileSync(join(scratch, 'manifest.json'), 'utf8'))
  const { container, container_config, parent, ...about } = JSON.parse(
    fs.readFileSync(join(scratch, image.Config), 'utf8'),
  )
  delete about.config.Hostname
  for (const step of about.history) delete step.comment
  const text = JSON.stringify(about)
  const Config = `${createHash('sha256').update(text).digest('hex')}.json`
  write(join(scratch, Config), text)
  // podman 4 loads no archive that is compressed as a whole.
  for (const layer of image.Layers)
    fs.writeFileSync(join(scratch, `${layer}.gz`), gzipSync(fs.readFileSync(join(scratch, layer))))
  const Layers = image.Layers.map(layer => `${layer}.gz`)
  write(join(scratch, 'manifest.json'), JSON.stringify([{ ...image, Config, Layers }]))
  const same = ['--sort=name', `--mtime=@${epoch}`, '--owner=0', '--group=0', '--numeric-owner', '--mode=0644']
  execFileSync('tar', ['-cf', target, '-C', scratch, ...same, 'manifest.json', Config, ...Layers])
}

try {
  const tool = options.with ?? ['podman', 'docker'].find(works)
  if (!tool) throw new Error('neither podman nor docker works on this machine; install one, or name one with --with')
  if (!options.built) prepare()
  fs.mkdirSync(out, { recursive: true })
  for (const arch of options.arch) {
    const context = fs.mkdtempSync(join(out, '.image-'))
    try {
      stageImage(context, arch)
      const image = `${options.name}:${version}-${arch}`
      const build = ['build', '--no-cache', '--quiet', '--platform', `linux/${arch}`, '--tag', image]
      // Only this format of podman has a health check.
      if (tool === 'podman') build.push('--format', 'docker', '--timestamp', String(epoch))
      const run = (...args) => execFileSync(tool, args, { stdio: ['ignore', 2, 2] })
      run(...build, ...labels(), '--file', join(FOLDER, 'Containerfile'), context)
      const saved = join(context, 'saved.tar')
      const target = join(out, `sluice_${version}_${arch}.image.tar`)
      run('save', '--output', saved, image)
      run('rmi', image)
      tidy(saved, join(context, 'saved'), target)
      run('load', '--input', target)
      process.stdout.write(`${image} ${target}\n`)
    } finally {
      fs.rmSync(context, { recursive: true, force: true })
    }
  }
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}
