import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  // src/docs/files.ts has the documents beside the sources of the page.
  server: { fs: { allow: ['../..'] } },
  test: {
    // Only for a test that hangs: the machine may be busy.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    include: ['test/**/*.test.ts'],
    root: fileURLToPath(new URL('.', import.meta.url)),
  },
});
