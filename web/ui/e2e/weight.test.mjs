// The weight of the first load of each page, with an empty cache: bytes and requests, with all
// files and answers until the page has shown its data. The appliance sends files compressed with
// Brotli, as to browsers with TLS. docs/performance.md has the figures.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { fileLimit, startSite } from './site.mjs';

const most = { kibibytes: 310, requests: 20 };
const quiet = 1_000;
/** The largest cumulative layout shift that Lighthouse calls good. */
const maxShift = 0.1;

const pages = [
  '/',
  '/assisted-installer/clusters',
  '/assisted-installer/clusters/~new',
  '/hosted',
  '/hosts',
  '/servers',
  '/os-images',
  '/networks',
  '/mirror',
  '/registry',
  '/site-services',
  '/doctor',
  '/ams',
  '/settings',
  '/access',
  '/reference',
];

describe('weight of the page', { timeout: fileLimit }, () => {
  let site;
  let browser;

  before(async () => {
    site = await startSite({ hosts: 3, speed: 400 });
    // A running installation causes requests for as long as it runs.
    await until('the demo has installed its cluster', async () =>
      (await site.get('/v2/clusters')).some(({ status }) => status === 'installed'));
    browser = await openBrowser(site.url, 'weight');
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  /** The requests of a page with their bytes, until there was none for a while, and its shifts. */
  const load = async (path) => {
    const context = await browser.another();
    const page = await context.newPage();
    await page.addInitScript(() => {
      window.shift = 0;
      new PerformanceObserver((list) => {
        for (const { value } of list.getEntries()) {
          window.shift += value;
        }
      }).observe({ type: 'layout-shift', buffered: true });
    });
    const devtools = await context.newCDPSession(page);
    await devtools.send('Network.enable');
    const requests = new Map();
    let last = Date.now();
    devtools.on('Network.requestWillBeSent', ({ requestId, request }) => {
      if (!request.url.startsWith('data:')) {
        last = Date.now();
        requests.set(requestId, { url: request.url.slice(site.url.length), bytes: 0 });
      }
    });
    devtools.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      last = Date.now();
      const request = requests.get(requestId);
      if (request) {
        request.bytes = encodedDataLength;
      }
    });
    await page.goto(site.url + path);
    await page.locator('h1').first().waitFor();
    while (Date.now() - last < quiet) {
      await page.waitForTimeout(100);
    }
    const shift = await page.evaluate(() => window.shift);
    await context.close();
    return { requests: [...requests.values()], shift };
  };

  for (const path of pages) {
    it(`${path} has at most ${String(most.kibibytes)} KiB in ${String(most.requests)} requests`, async (context) => {
      const { requests, shift } = await load(path);
      const kibibytes = requests.reduce((sum, request) => sum + request.bytes, 0) / 1024;
      const list = requests.map((request) => `${String(request.bytes)} ${request.url}`).join('\n');
      context.diagnostic(`${String(requests.length)} requests, ${String(Math.round(kibibytes))} KiB`);
      assert.ok(kibibytes <= most.kibibytes && requests.length <= most.requests, list);
      assert.ok(shift <= maxShift, `the layout shifts by ${shift.toFixed(3)} while the page loads`);
    });
  }
});
