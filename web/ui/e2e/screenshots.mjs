// Takes screenshots of the ten main pages of a demo, in three widths and two themes.

import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { prepareClusters, until } from './clusters.mjs';
import { startSite } from './site.mjs';

const widths = [1440, 1024, 800];
const themes = ['light', 'dark'];

describe('screenshots', { timeout: 600_000 }, () => {
  let site;
  let browser;
  const clusters = {};

  before(async () => {
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'page');
    const { ready } = await prepareClusters(site);
    clusters.ready = (await ready('north', { first: 11 })).id;
    const isInstalled = ({ status }) => status === 'installed';
    await until('the demo has installed its cluster', async () => (await site.get('/v2/clusters')).some(isInstalled));
    clusters.installed = (await site.get('/v2/clusters')).find(isInstalled).id;
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  const pages = {
    overview: () => '/',
    clusters: () => '/assisted-installer/clusters',
    installation: () => `/assisted-installer/clusters/${clusters.installed}`,
    review: () => `/assisted-installer/clusters/${clusters.ready}`,
    hosts: () => '/hosts',
    servers: () => '/servers',
    'os-images': () => '/os-images',
    networks: () => '/networks',
    mirror: () => '/mirror',
    settings: () => '/settings',
  };

  for (const [name, path] of Object.entries(pages)) {
    it(name, async () => {
      const { page, screenshot } = browser;
      for (const colorScheme of themes) {
        await page.emulateMedia({ colorScheme });
        await page.goto(site.url + path());
        await page.locator('h1').first().waitFor();
        await page.getByRole('progressbar').first().waitFor({ state: 'detached' });
        for (const width of widths) {
          await page.setViewportSize({ width, height: 1000 });
          await screenshot(`${name}-${String(width)}-${colorScheme}`);
        }
      }
    });
  }
});
