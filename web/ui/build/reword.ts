import { join } from 'node:path';
import type { Plugin } from 'vite';

/**
 * Says in our words what a library, built from its sources, has written into its code (and not into its translations).
 *
 * Words that are no longer there stop the build, so that an update of the library can't silently bring others.
 *
 * @param library absolute path of the library's source root
 * @param words module of the library (relative to `library`) -> its words -> ours
 */
export const reword = (library: string, words: Record<string, Record<string, string>>): Plugin => {
  const byPath = new Map(
    Object.entries(words).map(([module, pairs]) => [join(library, module), Object.entries(pairs)]),
  );
  const met = new Set<string>();
  return {
    name: 'landfall:reword',
    enforce: 'pre',
    transform(code, id) {
      const pairs = byPath.get(id);
      if (!pairs) {
        return null;
      }
      met.add(id);
      let reworded = code;
      for (const [theirs, ours] of pairs) {
        if (!reworded.includes(theirs)) {
          this.error(`${id} no longer says "${theirs}": look at what it says now`);
        }
        reworded = reworded.replaceAll(theirs, ours);
      }
      return { code: reworded, map: null };
    },
    buildEnd(error) {
      const missing = [...byPath.keys()].filter((path) => !met.has(path));
      if (!error && missing.length > 0) {
        this.error(`the library no longer has ${missing.join(', ')}: look at what took its place`);
      }
    },
  };
};
