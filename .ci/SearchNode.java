import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.index.mapper.MapperExtrasPlugin;
import org.opensearch.index.reindex.ReindexPlugin;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/**
 * A node of OpenSearch with the modules that it needs, from the class path: the archive with the server is in no registry.
 * One of Elasticsearch 7 is the same with other names of packages.
 */
public final class SearchNode extends Node {
  private SearchNode(Environment environment) {
    super(environment, List.of(Netty4Plugin.class, ReindexPlugin.class, MapperExtrasPlugin.class), false);
  }

  /** The argument is its folder, with config/opensearch.yml. It runs until it is killed. */
  public static void main(String[] arguments) throws Exception {
    Path home = Path.of(arguments[0]);
    Settings settings = Settings.builder().put("path.home", home.toString()).build();
    new SearchNode(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "test")).start();
    Thread.currentThread().join();
  }
}
