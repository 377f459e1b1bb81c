// The page of all hosts: filters, a role for several hosts, the page of one host, and the reasons
// why a machine is missing.

import assert from 'node:assert/strict';
import { after, before, describe } from 'node:test';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const pullSecret = '{"auths":{"example.com":{"auth":"YTpi"}}}';
const unknownInfraEnv = '11111111-1111-4111-8111-111111111111';

describe('hosts of the site', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let infraEnv;
  const step = dependentSteps(() => ({ browser, site }));
  const row = (name) => page.locator(`[data-testid="host"][data-name="${name}"]`);
  const rows = () => page.getByTestId('host');
  const dialog = () => page.getByRole('dialog');
  const outcome = () => page.getByTestId('host-outcome');

  before(async () => {
    site = await startSite({ hosts: 1 });
    const [version] = Object.keys(await site.get('/v2/openshift-versions'));
    ({ id: infraEnv } = await site.post('/v2/infra-envs', {
      name: 'spare',
      pull_secret: pullSecret,
      openshift_version: version,
    }));
    browser = await openBrowser(site.url, 'hosts');
    ({ page } = browser);
    await page.goto(site.url);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('lists hosts of all clusters and of none, also while they register', async () => {
    await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Hosts', exact: true }).click();
    await row('host-1').waitFor({ timeout: minute });
    for (const head of await page.getByRole('columnheader').all()) {
      const { right } = await head.evaluate((cell) => cell.getBoundingClientRect());
      const ends = await head.locator('svg').evaluateAll((icons) => icons.map((i) => i.getBoundingClientRect().right));
      assert.ok(ends.every((end) => end <= right), `an icon of "${await head.innerText()}" is cut off`);
    }
    const { bmcs } = await (await site.send('GET', '/api/landfall/v1/bmcs')).json();
    for (const { id } of bmcs.slice(0, 2)) {
      await site.send('POST', `/api/landfall/v1/bmcs/${id}/actions/boot`, { infra_env_id: infraEnv });
    }
    for (const name of ['server-1', 'server-2']) {
      await row(name).filter({ hasText: 'None' }).waitFor({ timeout: minute });
    }
  });

  step('filters by text and by cluster, and keeps the filter in the address', async () => {
    await page.getByRole('textbox', { name: 'Name, address, MAC or serial number' }).fill('server-2');
    await page.getByText('1 of 3 hosts').waitFor();
    assert.equal(await rows().count(), 1);
    await page.getByRole('textbox', { name: 'Name, address, MAC or serial number' }).fill('');
    await page.getByLabel('Cluster', { exact: true }).selectOption({ label: 'No cluster (2)' });
    await page.getByText('2 of 3 hosts').waitFor();
    assert.equal(new URL(page.url()).searchParams.get('cluster'), 'none');
    await page.reload();
    await page.getByText('2 of 3 hosts').waitFor();
  });

  step('sets the role of several hosts', async () => {
    await page.getByRole('checkbox', { name: 'Select all hosts of this page' }).check();
    await page.getByText('2 selected').waitFor();
    await page.getByRole('button', { name: 'Set role' }).click();
    assert.deepEqual(await dialog().getByTestId('host-names').locator('li').allInnerTexts(), ['server-1', 'server-2']);
    await dialog().getByLabel('Role', { exact: true }).selectOption({ label: 'Worker' });
    await dialog().getByRole('button', { name: 'Set role' }).click();
    await outcome().getByText('Role set on 2 hosts.').waitFor();
    await row('server-1').getByText('Worker').waitFor();
    await row('server-2').getByText('Worker').waitFor();
    await until('the dialog returns the focus to its button', () =>
      page.evaluate(() => document.activeElement?.textContent === 'Set role'));
  });

  step('shows a change of one host without a request of the whole list', async () => {
    const lists = [];
    page.on('request', (request) => {
      if (new URL(request.url()).pathname === '/api/landfall/v1/hosts') {
        lists.push(new URL(request.url()).search);
      }
    });
    const hosts = await site.get(`/v2/infra-envs/${infraEnv}/hosts`);
    const { id } = hosts.find(({ requested_hostname: name }) => name === 'server-2');
    await site.send('PATCH', `/api/assisted-install/v2/infra-envs/${infraEnv}/hosts/${id}`, { host_name: 'spare-2' });
    await row('spare-2').waitFor();
    assert.ok(lists.some((query) => query.startsWith('?host_id=')), lists.join(' '));
    // The page requests the whole list once a minute.
    assert.ok(lists.filter((query) => query === '').length <= 1, lists.join(' '));
  });

  step('shows the whole story of a host', async () => {
    await row('spare-2').getByRole('link', { name: 'spare-2' }).click();
    await page.getByRole('heading', { name: 'spare-2', level: 1 }).waitFor();
    for (const name of ['State', 'Checks', 'Hardware', 'Disks', 'Networks', 'BMC', 'Events']) {
      await page.getByRole('region', { name, exact: true }).waitFor();
    }
    await page.getByRole('list', { name: 'Network interfaces of spare-2' }).getByText('192.168.').first().waitFor();
    await page.getByRole('button', { name: 'Request log of the BMC' }).click();
    await dialog().getByTestId('bmc-session').first().waitFor();
    await dialog().getByRole('button', { name: 'Close' }).last().click();
  });

  step('names the hosts before it removes them', async () => {
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    assert.deepEqual(await dialog().getByTestId('host-names').locator('li').allInnerTexts(), ['spare-2']);
    await dialog().getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByText('There is no such host any more.').waitFor();
  });

  step('says why a registration was refused', async () => {
    const refused = await site.send(
      'POST',
      `/api/assisted-install/v2/infra-envs/${unknownInfraEnv}/hosts`,
      { host_id: '22222222-2222-4222-8222-222222222222' },
    );
    assert.equal(refused.status, 404);
    await page.getByRole('link', { name: 'Why is my host not here?' }).click();
    const finding = page.getByTestId('missing-finding').filter({ hasText: 'Registration refused: 127.0.0.1' });
    await finding.getByText(`There is no infra-env ${unknownInfraEnv}`).waitFor();
    await finding.getByText('booted an old image').waitFor();
    const line = page.getByLabel('Does the machine reach the appliance?').first();
    assert.match(await line.inputValue(), /^curl .*\/api\/landfall\/v1\/login$/);
    assert.deepEqual(browser.foreign, []);
    assert.deepEqual(browser.errors, []);
  });

  step('shows the hosts in a narrow window', async () => {
    await page.getByRole('link', { name: 'Hosts', exact: true }).last().click();
    await page.setViewportSize({ width: 320, height: 900 });
    await row('server-1').waitFor();
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 320, `the page is ${String(wide)} pixels wide`);
  });
});
