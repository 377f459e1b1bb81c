import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Plugin } from 'vite';

const compressible = /\.(js|css|html|svg|json|ttf)$/;

const zip = promisify(gzip);
const brotli = promisify(brotliCompress);

/**
 * Replaces each text file in `assets/` that compresses well with `name.gz` and `name.br`. Browsers
 * accept the second, which is smaller by a fifth, only with TLS or on the same machine. The server
 * sends both files unchanged, or decompresses the first for clients without compression.
 * `index.html` stays beside its compressed forms.
 */
export const compressedVariants = (): Plugin => ({
  name: 'landfall:compressed-variants',
  apply: 'build',
  async writeBundle({ dir }) {
    if (!dir) {
      return;
    }
    const names = (await readdir(dir, { recursive: true })).filter((name) => compressible.test(name));
    await Promise.all(
      names.map(async (name) => {
        const path = join(dir, name);
        const plain = await readFile(path);
        const zipped = await zip(plain, { level: constants.Z_BEST_COMPRESSION });
        if (zipped.length >= plain.length * 0.9) {
          return;
        }
        await writeFile(`${path}.gz`, zipped);
        const params = { [constants.BROTLI_PARAM_SIZE_HINT]: plain.length };
        await writeFile(`${path}.br`, await brotli(plain, { params }));
        if (name.startsWith('assets/')) {
          await rm(path);
        }
      }),
    );
  },
});
