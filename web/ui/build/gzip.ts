import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Plugin } from 'vite';

const compress = promisify(gzip);
const compressible = /\.(js|css|html|svg|json|ttf)$/;

/**
 * Replaces each text file in `assets/` that compresses well with `name.gz`. The server sends that
 * file unchanged, or decompresses it for clients without gzip. `index.html` stays beside its `.gz`.
 */
export const gzipVariants = (): Plugin => ({
  name: 'landfall:gzip-variants',
  apply: 'build',
  async writeBundle({ dir }) {
    if (!dir) {
      return;
    }
    for (const entry of await readdir(dir, { recursive: true })) {
      if (!compressible.test(entry)) {
        continue;
      }
      const path = join(dir, entry);
      const plain = await readFile(path);
      const packed = await compress(plain, { level: 9 });
      if (packed.length < plain.length * 0.9) {
        await writeFile(`${path}.gz`, packed);
        if (entry.startsWith('assets/')) {
          await rm(path);
        }
      }
    }
  },
});
