import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';

const assets = '../../assets/ui';

/**
 * Patterns that must not occur in the built application: they could send a request to another
 * origin without an action of the user. (The page shows addresses of documentation as text; see
 * `links.test.ts`.)
 */
const forbidden: [what: string, pattern: RegExp][] = [
  ['a public CDN', /cdn\.|jsdelivr\.net\/npm\/(?!monaco)|unpkg\.com|cdnjs|esm\.sh|googleapis\.com|gstatic\.com/],
  ['Sentry', /sentry\.io|ingest\.sentry|\bSentry\.init\b|"X-Sentry-Auth"/],
  ['analytics', /google-analytics|googletagmanager|segment\.(com|io)|amplitude\.com|mixpanel|pendo\.io|matomo/],
  [
    'a script, style, image or font of another origin',
    /(?:src|srcset)\s*=\s*["']https?:\/\/|url\(\s*["']?(?:https?:)?\/\//,
  ],
  ['an import of another origin', /\bimport\(\s*["'`]https?:|\bfrom\s*["']https?:|importScripts\(\s*["'`]https?:/],
  ['a request to another origin', /\b(?:fetch|EventSource|WebSocket|sendBeacon)\(\s*["'`](?:https?|wss?):/],
];

describe('the built application', () => {
  let files: [name: string, text: string][] = [];

  beforeAll(async () => {
    const names = (await readdir(assets, { recursive: true })).filter((name) => /\.(js|css|html)$/.test(name));
    files = await Promise.all(
      names.map(async (name): Promise<[string, string]> => [name, await readFile(join(assets, name), 'utf8')]),
    );
  });

  it('exists (run npm run build before npm test)', () => {
    expect(files.map(([name]) => name)).toContain('index.html');
  });

  it.each(forbidden)('does not contain %s', (_, pattern) => {
    const found = files.flatMap(([name, text]) => {
      const match = pattern.exec(text);
      return match ? [`${name}: …${text.slice(Math.max(0, match.index - 60), match.index + 100)}…`] : [];
    });
    expect(found).toEqual([]);
  });

  it('contains the fonts of its style sheets', async () => {
    const present = new Set(await readdir(join(assets, 'assets')));
    for (const [name, text] of files.filter(([file]) => file.endsWith('.css'))) {
      for (const [, font] of text.matchAll(/url\(["']?\.?\/?(?:assets\/)?([\w.-]+\.(?:woff2?|ttf))/g)) {
        expect(present, `${name} refers to it`).toContain(font);
      }
    }
  });

  it('loads the code editor on demand', () => {
    const page = files.find(([name]) => name === 'index.html')?.[1] ?? '';
    expect(page).not.toContain('monaco');
  });
});
