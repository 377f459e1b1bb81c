// The page of the servers without YAML: adding a server, importing a table, booting from the image
// of a cluster, power, request log, removal. The BMCs are those of the demo.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { setTimeout as wait } from 'node:timers/promises';
import { openBrowser } from './browser.mjs';
import { fileLimit, freePort, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const pullSecret = '{"auths":{"example.com":{"auth":"YTpi"}}}';

describe('servers with BMCs', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let cluster;
  const step = dependentSteps(() => ({ browser, site }));
  const row = (name) => page.getByTestId('bmc-server').filter({ has: page.getByText(name, { exact: true }) });
  const dialog = () => page.getByRole('dialog');

  before(async () => {
    site = await startSite({ hosts: 1 });
    const [version] = Object.keys(await site.get('/v2/openshift-versions'));
    ({ id: cluster } = await site.post('/v2/clusters', {
      name: 'berlin',
      base_dns_domain: 'site.test',
      openshift_version: version,
      cpu_architecture: 'x86_64',
      pull_secret: pullSecret,
      control_plane_count: 1,
    }));
    await site.post('/v2/infra-envs', {
      name: 'berlin',
      cluster_id: cluster,
      pull_secret: pullSecret,
      openshift_version: version,
    });
    browser = await openBrowser(site.url, 'servers');
    ({ page } = browser);
    await page.goto(`${site.url}/assisted-installer/clusters`);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('shows the servers with the data of their BMCs', async () => {
    await page.getByRole('link', { name: 'Servers', exact: true }).click();
    await row('server-1').filter({ hasText: 'Dell Inc. PowerEdge R650' }).filter({ hasText: 'Available' }).waitFor();
    assert.match(await row('server-1').innerText(), /DEMO0001/);
  });

  step('adds a server whose BMC does not respond', async () => {
    await page.getByRole('button', { name: 'Add a server' }).click();
    await dialog().getByLabel('Name', { exact: false }).first().fill('quiet');
    await dialog()
      .getByLabel('Address of the BMC')
      .fill(`redfish-virtualmedia+http://127.0.0.1:${String(await freePort())}`);
    await dialog().getByLabel('User name').fill('root');
    await dialog().getByLabel('Password').fill('secret');
    await dialog().getByLabel('Boots the image of').selectOption({ label: 'berlin' });
    await dialog().getByRole('button', { name: 'Add', exact: true }).click();
    await row('quiet').getByTestId('bmc-error').waitFor();
  });

  step('checks a pasted table row by row', async () => {
    await page.getByRole('button', { name: 'Paste a table' }).click();
    await dialog()
      .getByLabel('Table')
      .fill(
        'name;address;username;password;infra_env\n' +
          'rack-1;ftp://192.0.2.1;root;a;berlin\n' +
          'rack-2;192.0.2.2;root;b;nowhere\n' +
          'server-1;192.0.2.3;root;c;\n' +
          'rack-4;192.0.2.4;root;d;berlin',
      );
    await dialog().getByRole('button', { name: 'Check' }).click();
    const rows = dialog().getByTestId('bmc-rows');
    await rows.getByText('1 can be added, 3 not.').waitFor();
    const text = await rows.innerText();
    for (const wanted of [/Line 2, rack-1: .*ftp/, /Line 3, rack-2: .*nowhere/, /Line 4, server-1: .*already/]) {
      assert.match(text, wanted);
    }
  });

  step('boots a server and links to its host', async () => {
    await dialog().getByRole('button', { name: 'Close' }).last().click();
    await row('server-1').getByRole('button', { name: 'Boot now' }).click();
    await dialog().getByLabel('From the image of').selectOption({ label: 'berlin' });
    await dialog().getByRole('button', { name: 'Boot it' }).click();
    await row('server-2').getByRole('button', { name: 'More for server-2' }).click();
    await page.getByRole('menuitem', { name: 'Power off' }).click();
    await dialog().getByText('Power off server-2?').waitFor();
    await dialog().getByRole('button', { name: 'Power off' }).click();
    await row('server-1').filter({ hasText: 'Image of berlin' }).waitFor();
    await row('server-1').getByRole('link', { name: 'server-1' }).waitFor({ timeout: minute });
    await row('server-2').getByText('Off', { exact: true }).waitFor();
  });

  step('asks for the name of the host before a boot that ends its installation', async () => {
    const ready = async () => (await site.get(`/v2/clusters/${cluster}`)).status === 'ready';
    for (const end = Date.now() + minute; !(await ready()); await wait(200)) {
      assert.ok(Date.now() < end, 'the cluster does not become ready');
    }
    await site.post(`/v2/clusters/${cluster}/actions/install`, {});
    await row('server-1').getByRole('button', { name: 'Boot now' }).click();
    await dialog().getByRole('button', { name: 'Boot it' }).click();
    await dialog().getByText('the host server-1 of the cluster berlin').waitFor();
    assert.ok(await dialog().getByRole('button', { name: 'Boot it' }).isDisabled());
    await dialog().getByLabel('Type server-1 to end this host').fill('server-1');
    await dialog().getByRole('button', { name: 'Boot it' }).click({ trial: true });
    await dialog().getByRole('button', { name: 'Cancel' }).click();
  });

  step('shows the request log of the BMC without secrets', async () => {
    await row('server-1').getByRole('button', { name: 'Request log' }).click();
    const said = dialog().getByTestId('bmc-session').filter({ hasText: 'boot: ' });
    await said.getByText('VirtualMedia.InsertMedia').first().waitFor();
    assert.doesNotMatch(await dialog().innerText(), /"Password": ?"demo"/);
  });

  step('removes a server', async () => {
    await dialog().getByRole('button', { name: 'Close' }).last().click();
    await row('quiet').getByRole('button', { name: 'More for quiet' }).click();
    await page.getByRole('menuitem', { name: 'Remove' }).click();
    await dialog().getByRole('button', { name: 'Remove', exact: true }).click();
    await row('quiet').waitFor({ state: 'detached' });
    assert.deepEqual(browser.foreign, []);
    assert.deepEqual(browser.errors, []);
  });

  step('shows pages and servers in a narrow window', async () => {
    await page.setViewportSize({ width: 420, height: 900 });
    const place = (locator) => locator.boundingBox();
    const menu = await place(page.getByRole('button', { name: 'Servers', exact: true }));
    assert.ok(menu.x >= 0 && menu.x + menu.width <= 420, `the menu of pages is at ${JSON.stringify(menu)}`);
    const cell = await place(row('server-1').locator('td').first());
    assert.ok(cell.width > 200, `the name and address have ${String(cell.width)} pixels`);
    await row('server-1').getByRole('button', { name: 'Boot now' }).click({ trial: true });
  });
});
