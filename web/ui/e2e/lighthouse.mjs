// Measures every page with Lighthouse, for docs/performance.md: `make lighthouse`. The figures are
// only of use on an idle machine. The script prints the load and a table; npx fetches Lighthouse.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { until } from './clusters.mjs';
import { startSite } from './site.mjs';

const run = promisify(execFile);
const categories = ['performance', 'accessibility', 'best-practices'];
const pages = {
  overview: '/',
  clusters: '/assisted-installer/clusters',
  'new cluster': '/assisted-installer/clusters/~new',
  'hosted clusters, disabled': '/hosted',
  hosts: '/hosts',
  servers: '/servers',
  'OS images': '/os-images',
  networks: '/networks',
  mirror: '/mirror',
  registry: '/registry',
  'site services': '/site-services',
  doctor: '/doctor',
  'OpenShift Cluster Manager': '/ams',
  settings: '/settings',
  accounts: '/access',
  API: '/reference',
  documents: '/docs',
};

const measure = async (url, file) => {
  const flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-background-networking'];
  await run(
    'npx',
    [
      '--yes',
      'lighthouse@12',
      url,
      '--quiet',
      '--preset=desktop',
      '--throttling-method=provided',
      '--screenEmulation.width=1440',
      '--screenEmulation.height=1000',
      `--only-categories=${categories.join(',')}`,
      `--chrome-flags=${flags.join(' ')}`,
      '--output=json',
      `--output-path=${file}`,
    ],
    { env: { CHROME_PATH: '/usr/bin/chromium', ...process.env }, maxBuffer: 1 << 26 },
  );
  return JSON.parse(await readFile(file, 'utf8'));
};

const directory = await mkdtemp(join(tmpdir(), 'landfall-lighthouse-'));
const site = await startSite({ hosts: 3, speed: 400 });
try {
  await until('the demo has installed its cluster', async () =>
    (await site.get('/v2/clusters')).some(({ status }) => status === 'installed'));
  console.log('| page | performance, accessibility, best practices | largest paint (ms) | shift | load |');
  console.log('|---|---|---|---|---|');
  const wanted = process.argv.slice(2);
  for (const [name, path] of Object.entries(pages)) {
    if (wanted.length > 0 && !wanted.includes(name)) {
      continue;
    }
    const report = await measure(site.url + path, join(directory, 'report.json'));
    const scores = categories.map((id) => Math.round((report.categories[id].score ?? 0) * 100));
    const paint = Math.round(report.audits['largest-contentful-paint'].numericValue ?? 0);
    const shift = (report.audits['cumulative-layout-shift'].numericValue ?? 0).toFixed(2);
    console.log(`| ${name} | ${scores.join(', ')} | ${String(paint)} | ${shift} | ${loadavg()[0].toFixed(1)} |`);
    const failed = categories.slice(1).flatMap((id) =>
      report.categories[id].auditRefs
        .map((one) => report.audits[one.id])
        .filter(({ score }) => score !== null && score < 1));
    for (const { title } of failed) {
      console.error(`  ${name}: ${title}`);
    }
  }
} finally {
  await site.end();
  await rm(directory, { recursive: true, force: true });
}
