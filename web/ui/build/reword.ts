import { join } from 'node:path';
import type { Plugin } from 'vite';

/**
 * Replaces texts in the code of a library: words that are not in its translations, or statements.
 * The library is built from its sources.
 *
 * A text that no longer exists fails the build. So an update of the library can't silently bring
 * other texts.
 *
 * @param library absolute path of the library's source root
 * @param words module of the library (relative to `library`) -> its text -> our text
 */
export const reword = (library: string, words: Record<string, Record<string, string>>): Plugin => {
  const byPath = new Map(
    Object.entries(words).map(([module, pairs]) => [join(library, module), Object.entries(pairs)]),
  );
  const met = new Set<string>();
  return {
    name: `landfall:reword ${library}`,
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
          this.error(`${id} no longer contains "${theirs}": check its new text`);
        }
        reworded = reworded.replaceAll(theirs, ours);
      }
      return { code: reworded, map: null };
    },
    buildEnd(error) {
      const missing = [...byPath.keys()].filter((path) => !met.has(path));
      if (!error && missing.length > 0) {
        this.error(`the library no longer has ${missing.join(', ')}: check what replaced it`);
      }
    },
  };
};
