// Rules of accessibility (WCAG 2.2 AA, checked by axe) on pages of the site in four widths and two
// themes, and the way of the keyboard into a page.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';

const pages = [
  ['/', 'Overview'],
  ['/setup', 'Set up this site'],
  ['/settings', 'Settings'],
  ['/assisted-installer/clusters', 'Clusters'],
  ['/hosted', 'Hosted clusters are disabled'],
  ['/hosts', 'Hosts'],
  ['/hosts/missing', 'Why is my host not here?'],
  ['/servers', 'Servers'],
  ['/os-images', 'OS images'],
  ['/networks', 'Networks'],
  ['/mirror', 'Mirror'],
  ['/registry', 'Registry'],
  ['/site-services', 'Site services'],
  ['/doctor', 'Doctor'],
  ['/ams', 'OpenShift Cluster Manager'],
  ['/access', 'Accounts'],
  ['/reference', 'API'],
  ['/docs', 'Documentation'],
  ['/docs?q=registry', 'Documentation'],
  ['/docs/registry', "The appliance's own registry"],
  ['/docs/networks#validation', 'Static networks'],
  ['/docs/readme', 'Landfall'],
  ['/nothing', 'Page not found'],
];

describe('accessible pages', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const { heading } = controls(() => page);

  before(async () => {
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

  const { check } = accessibility(() => browser);

  for (const [path, title] of pages) {
    it(`${title}: no finding in any width and theme`, () =>
      check(title, async () => {
        await page.goto(site.url + path);
        await heading(title).waitFor();
      }));
  }

  it('a host: no finding in any width and theme', () =>
    check('host', async () => {
      await page.goto(`${site.url}/hosts`);
      await page.getByRole('link', { name: 'host-1' }).click();
      await heading('Networks').waitFor();
    }));

  it('an installation: no finding in any width and theme', () =>
    check('installation', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters`);
      await page.getByRole('link', { name: 'demo', exact: true }).click();
      await page.getByRole('button', { name: 'Show the times of all stages' }).click();
      await page.getByRole('button', { name: 'Show the events' }).click();
      await page.getByTestId('cluster-events').waitFor();
    }));

  it('the first step of the wizard: no finding in any width and theme', () =>
    check('wizard', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters/~new`);
      await page.getByRole('textbox', { name: 'Cluster name' }).waitFor();
    }));

  it('a cluster that is not ready: no finding in any width and theme', async () => {
    const cluster = await site.post('/v2/clusters', {
      name: 'east',
      base_dns_domain: 'site.test',
      openshift_version: (await site.get('/v2/clusters'))[0].openshift_version,
      pull_secret: JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } }),
    });
    await site.post('/v2/infra-envs', {
      name: 'east',
      cluster_id: cluster.id,
      pull_secret: JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } }),
    });
    await check('blocked', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters/${cluster.id}`);
      await heading('Host discovery').waitFor();
      await page.getByText('The discovery image has no SSH key.').waitFor();
      await page.getByRole('button', { name: 'Show what blocks the installation' }).click();
      await page.getByTestId('blockers').getByRole('listitem').first().waitFor();
    });
    assert.match(await page.getByTestId('readiness').innerText(), /^\d+ things block the installation\./m);
  });

  it('the deletion of a cluster: no finding in any width and theme', () =>
    check('deletion', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters`);
      const row = page.getByTestId('cluster-row-east');
      await row.getByRole('button', { name: 'Kebab toggle' }).click();
      await page.getByRole('menuitem', { name: 'Delete' }).click();
      await page.getByRole('textbox', { name: /^Type the name/ }).waitFor();
    }));

  it('a dialog of the settings: no finding in any width and theme', () =>
    check('webhook', async () => {
      await page.goto(`${site.url}/settings`);
      await page.getByRole('button', { name: 'Add a webhook' }).click();
      await page.getByRole('textbox', { name: 'Address' }).waitFor();
    }));

  it('a dialog about several hosts: no finding in any width and theme', () =>
    check('host-dialog', async () => {
      await page.goto(`${site.url}/hosts`);
      await page.getByRole('checkbox', { name: 'Select all hosts of this page' }).check();
      await page.getByRole('button', { name: 'Remove', exact: true }).click(); // the hosts are installed
      await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).waitFor();
    }));

  it('the login to OpenShift Cluster Manager: no finding in any width and theme', () =>
    check('ams-login', async () => {
      await page.goto(`${site.url}/ams`);
      await page.getByRole('button', { name: 'Log in', exact: true }).click();
      await page.getByLabel('Client ID').waitFor();
    }));

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

  it('has the links to all pages in one line, and those without room in a menu', async () => {
    const menu = page.locator('.landfall-pages').getByRole('button');
    await page.goto(`${site.url}/settings`);
    await heading('Settings').waitFor();
    for (const [width, hasMenu] of [[1440 - 15, false], [1280, true], [1024, true], [1440 - 15, false]]) {
      await page.setViewportSize({ width, height: 1000 });
      await menu.waitFor({ state: hasMenu ? 'visible' : 'detached' });
      // A link that no longer fits is hidden in the next frame.
      const shown = await page.waitForFunction(() => {
        const links = [...document.querySelectorAll('nav[aria-label=Pages] a')];
        const visible = links.filter((link) => link.checkVisibility({ visibilityProperty: true }));
        const lines = new Set(visible.map((link) => link.getBoundingClientRect().y));
        return lines.size === 1 && visible.length;
      });
      const links = await shown.jsonValue();
      let inMenu = 0;
      if (hasMenu) {
        await menu.click();
        await page.getByRole('menuitem', { name: 'Docs' }).waitFor();
        inMenu = await page.getByRole('menuitem').count();
        const current = page.locator('[role=menuitem][aria-current=page]');
        assert.deepEqual([await menu.innerText(), ...(await current.allInnerTexts())], ['Settings', 'Settings']);
        await page.keyboard.press('Escape');
      }
      assert.equal(links + inMenu, 15, `${String(width)} px`);
    }
  });

  it('moves nothing if the system asks for that', async () => {
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await page.goto(site.url);
    await heading('Overview').waitFor();
    const longest = await page.evaluate(() =>
      Math.max(
        ...[...document.querySelectorAll('body *')].flatMap((element) => {
          const { animationDuration, transitionDuration } = getComputedStyle(element);
          return `${animationDuration}, ${transitionDuration}`.split(', ').map((time) => Number.parseFloat(time));
        }),
      ));
    await page.emulateMedia({ reducedMotion: 'no-preference' });
    assert.ok(longest <= 0.001, `${String(longest)} s`);
  });

  it('leads to a setting and focuses its field', async () => {
    await page.goto(`${site.url}/settings#ssh-key`);
    await page.waitForFunction(() => document.activeElement?.id === 'ssh-key-field');
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
