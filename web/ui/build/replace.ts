import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

/**
 * Replaces single modules of a library that is built from its sources. A replacement may import the
 * original module (by its full path) to wrap it: imports of replacements are not replaced.
 *
 * A module that no longer exists in the library fails the build. So an update of the library can't
 * silently restore the original.
 *
 * @param library absolute path of the library's source root
 * @param replacements module of the library (relative to `library`) -> our module (relative to
 * `ours`)
 * @param ours absolute path of the directory of our modules
 */
export const replaceModules = (
  library: string,
  replacements: Record<string, string>,
  ours: string,
): Plugin => {
  const byPath = new Map(
    Object.entries(replacements).map(([theirs, mine]) => [join(library, theirs), join(ours, mine)]),
  );
  const used = new Set<string>();
  return {
    name: 'landfall:replace-modules',
    enforce: 'pre',
    async resolveId(source, importer, options) {
      if (!importer || dirname(importer) === ours || !importer.startsWith(library)) {
        return null;
      }
      const resolved = await this.resolve(source, importer, { ...options, skipSelf: true });
      const replacement = resolved && byPath.get(resolved.id);
      if (!replacement) {
        return resolved;
      }
      used.add(resolved.id);
      return replacement;
    },
    buildEnd(error) {
      const unused = [...byPath.keys()].filter((path) => !used.has(path));
      if (!error && unused.length > 0) {
        this.error(`the library no longer imports ${unused.join(', ')}: check what replaced it`);
      }
    },
  };
};
