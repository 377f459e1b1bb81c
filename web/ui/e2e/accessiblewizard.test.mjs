// Rules of accessibility, checked by axe, on each step of the wizard, with ready hosts, with errors
// and in its dialogs, and on a failed installation.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { prepareClusters, until } from './clusters.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';


describe('accessible wizard', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  const clusters = {};

  const { button, heading, next } = controls(() => page);
  const { check } = accessibility(() => browser);

  const open = async (name) => {
    await page.goto(`${site.url}/assisted-installer/clusters/${clusters[name].id}`);
    await page.getByTestId('cluster-wizard-nav').waitFor();
  };
  const openStep = async (name, step) => {
    await open(name);
    await button(step, page.getByTestId('cluster-wizard-nav')).click();
    await heading(step).waitFor();
  };
  const expandFirst = () => page.locator('.pf-v6-c-table__toggle button').first().click();

  before(async () => {
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'wizard');
    page = browser.page;
    const { create, ready } = await prepareClusters(site);
    clusters.ready = await ready('ready', { first: 11 });
    clusters.blocked = await create('blocked', { first: 21, faults: 'host=22:clock-skew=3600s' });
    clusters.two = await create('two', { first: 31, hosts: 2, settings: { control_plane_count: 2 } });
    clusters.empty = await create('empty', { hosts: 0 });
    clusters.failed = await ready('failed', { first: 41, faults: 'host=43:fail-at=Writing image to disk' });
    await site.send('POST', `/api/assisted-install/v2/clusters/${clusters.failed.id}/actions/install`);
    await until('the installation fails', async () => (await clusters.failed.read()).status === 'error');
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  const states = [
    ['a new cluster with errors', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters/~new`);
      await page.getByRole('textbox', { name: 'Cluster name' }).fill('A b');
      await page.keyboard.press('Tab');
      await page.getByRole('checkbox', { name: /Include custom manifests/ }).check();
    }],
    ['cluster details', () => openStep('ready', 'Cluster details')],
    ['operators', () => openStep('ready', 'Operators')],
    ['host discovery', () => openStep('ready', 'Host discovery')],
    ['a host of the discovery', async () => {
      await openStep('ready', 'Host discovery');
      await expandFirst();
    }],
    ['the actions on several hosts', async () => {
      await openStep('ready', 'Host discovery');
      await page.getByRole('checkbox', { name: 'Select this host' }).first().check();
      await page.getByTestId('actions-dropdown-toggle').click();
      await page.getByRole('menu').waitFor();
    }],
    ['a host with another clock', async () => {
      await open('blocked');
      await heading('Host discovery').waitFor();
      await page.getByRole('button', { name: 'Show what blocks the installation' }).click();
    }],
    ['two control-plane nodes', async () => {
      await open('two');
      await page.getByTestId('fencing').getByRole('listitem').nth(1).waitFor();
    }],
    ['fencing credentials', async () => {
      await open('two');
      await page.getByTestId('fencing').getByRole('button').first().click();
      await page.getByLabel('Address of the BMC').waitFor();
    }],
    ['no hosts', async () => {
      await open('empty');
      await heading('Host discovery').waitFor();
    }],
    ['the hardware requirements', async () => {
      await open('empty');
      await page.getByRole('button', { name: 'Minimum hardware requirements' }).first().click();
      await page.getByRole('dialog').waitFor();
    }],
    ['adding hosts', async () => {
      await open('empty');
      await button('Add hosts').click();
      await page.getByRole('checkbox', { name: /proxy/i }).check();
    }],
    ['the discovery image', async () => {
      await open('empty');
      await button('Add hosts').click();
      await button('Generate Discovery ISO').click();
      await page.getByTestId('iso-sha256').waitFor();
    }],
    ['storage', async () => {
      await openStep('ready', 'Storage');
      await expandFirst();
    }],
    ['the events', async () => {
      await openStep('ready', 'Storage');
      await button('View cluster events').click();
      await page.getByRole('dialog').waitFor();
    }],
    ['networking', async () => {
      await openStep('ready', 'Networking');
      await page.getByRole('checkbox', { name: /advanced networking/i }).check();
      await expandFirst();
    }],
    ['networking with errors', async () => {
      await openStep('ready', 'Networking');
      await page.getByRole('textbox', { name: /API IP/ }).fill('1.2.3.999');
      await page.keyboard.press('Tab');
      await page.getByText(/not a valid IP/i).first().waitFor();
    }],
    ['review', async () => {
      await openStep('ready', 'Review and install');
      await page.getByTestId('review-hosts').waitFor();
      await page.getByRole('link', { name: 'Show the findings' }).waitFor();
    }],
    ['a failed installation', async () => {
      await page.goto(`${site.url}/assisted-installer/clusters/${clusters.failed.id}`);
      await button('Show the events').click();
      await page.getByTestId('cluster-events').waitFor();
    }],
  ];

  for (const [name, show] of states) {
    it(`${name}: no finding in any width and theme`, () => check(name, show));
  }

  it('shows the hosts and all buttons of a step in a narrow window', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await openStep('ready', 'Storage');
    const row = page.getByTestId('host-row-2');
    await row.scrollIntoViewIfNeeded();
    const [table, last, events] = await Promise.all(
      [page.locator('.hosts-table'), row, button('View cluster events')].map((part) => part.boundingBox()));
    assert.ok(table.y + table.height >= last.y + last.height, 'the table is as high as its rows');
    assert.ok(events.x + events.width <= 390, 'the last button is within the window');
    await page.setViewportSize({ width: 1440, height: 1000 });
  });

  it('static networks: no finding in any width and theme', async () => {
    let count = 0;
    const create = async () => {
      count += 1;
      await page.goto(`${site.url}/assisted-installer/clusters/~new`);
      await page.getByRole('textbox', { name: 'Cluster name' }).fill(`static${String(count)}`);
      await page.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
      await page.getByRole('radio', { name: /Static IP/ }).check();
      await next();
      await heading('Network-wide configurations').waitFor();
      await page.getByTestId('ipv4-machine-network-ip').fill('nothing');
      await page.keyboard.press('Tab');
    };
    await check('static', create);
    const toHosts = async () => {
      await create();
      await page.getByTestId('ipv4-machine-network-ip').fill('192.168.7.0');
      await page.getByTestId('ipv4-machine-network-prefix-length').fill('24');
      await page.getByTestId('ipv4-gateway').fill('192.168.7.1');
      await page.getByRole('textbox', { name: /DNS/ }).fill('192.168.7.1');
      await next();
      await heading('Host specific configurations').waitFor();
    };
    await check('static-hosts', toHosts);
  });

  it('custom manifests: no finding in any width and theme', async () => {
    const settings = `/api/assisted-install/v2/clusters/${clusters.ready.id}/ui-settings`;
    const response = await site.send('PUT', settings, `AI_UI:${JSON.stringify({ addCustomManifests: true })}`);
    assert.ok(response.ok, String(response.status));
    await check('manifests', async () => {
      await open('ready');
      await heading('Custom manifests').waitFor();
      await page.getByTestId('filename-0').waitFor();
    });
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual([browser.errors, browser.foreign], [[], []]);
  });
});
