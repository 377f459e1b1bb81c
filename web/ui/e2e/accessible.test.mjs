// Rules of accessibility (WCAG 2.2 AA, checked by axe) on pages of the site in three widths and two
// themes, and the way of the keyboard into a page.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { startSite } from './site.mjs';

const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'];
const widths = [1440, 800, 320];
const themes = ['light', 'dark'];
const pages = [
  ['/', 'Overview'],
  ['/setup', 'Set up this site'],
  ['/settings', 'Settings'],
  ['/assisted-installer/clusters', 'Clusters'],
  ['/hosts', 'Hosts'],
  ['/hosts/missing', 'Why is my host not here?'],
  ['/servers', 'Servers'],
  ['/os-images', 'OS images'],
  ['/networks', 'Networks'],
  ['/mirror', 'Mirror'],
  ['/doctor', 'Doctor'],
  ['/ams', 'OpenShift Cluster Manager'],
  ['/access', 'Accounts'],
  ['/reference', 'API'],
  ['/nothing', 'Page not found'],
];

describe('accessible pages', { timeout: 240_000 }, () => {
  let site;
  let browser;
  let page;
  let axe;

  const { heading } = controls(() => page);

  before(async () => {
    axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'accessible');
    page = browser.page;
    // The demo starts its installation, and with it the overview replaces the checklist.
    const installations = async () =>
      (await (await site.send('GET', '/api/landfall/v1/overview')).json()).installations.length;
    while ((await installations()) === 0) {
      await page.waitForTimeout(200);
    }
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  for (const [path, title] of pages) {
    it(`${title}: no finding in any width and theme`, async () => {
      for (const colorScheme of themes) {
        await page.emulateMedia({ colorScheme });
        for (const width of widths) {
          await page.setViewportSize({ width, height: 1000 });
          await page.goto(site.url + path);
          await heading(title).waitFor();
          await page.getByRole('progressbar', { name: /^(Loading|Reading)/ }).first().waitFor({ state: 'detached' });
          await page.evaluate(axe);
          const found = await page.evaluate(
            async (only) =>
              (await window.axe.run(document, { runOnly: only })).violations.map(
                ({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`,
              ),
            rules,
          );
          const spare = await page.evaluate(() => window.innerWidth - document.documentElement.scrollWidth);
          await browser.screenshot(`${title.replaceAll(/[^a-z]+/gi, '-')}-${String(width)}-${colorScheme}`);
          assert.deepEqual(found, [], `${String(width)} px, ${colorScheme}`);
          assert.ok(spare >= 0, `${String(width)} px: the page is wider than the window`);
        }
      }
    });
  }

  it('leads the keyboard to the content', async () => {
    await page.setViewportSize({ width: 1440, height: 1000 });
    await page.goto(`${site.url}/settings`);
    await heading('Settings').waitFor();
    const focused = () => page.evaluate(() => document.activeElement?.id);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    assert.equal(await focused(), 'main');
    await page.getByRole('link', { name: 'Mirror', exact: true }).focus();
    await page.keyboard.press('Enter');
    await heading('Mirror').waitFor();
    assert.equal(await focused(), 'main');
  });

  it('leads to a setting and focuses its field', async () => {
    await page.goto(`${site.url}/settings#ssh-key`);
    await page.waitForFunction(() => document.activeElement?.id === 'ssh-key-field');
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
