// The page of OpenShift Cluster Manager: offline, pending changes, sent changes, clusters that need
// attention, retries.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { prepareAmsServer } from './amsserver.mjs';

const release =
  '[{openshift_version: 4.20.8, cpu_architecture: x86_64, default: true, ' +
  'url: "quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64"}]';
const pullSecret = JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } });

describe('OpenShift Cluster Manager', { timeout: fileLimit }, () => {
  let ams;
  let site;
  let browser;
  let page;

  const register = (name) =>
    site.post('/v2/clusters', {
      name,
      base_dns_domain: 'site.test',
      openshift_version: '4.20.8',
      pull_secret: pullSecret,
      control_plane_count: 1,
    });
  const { button } = controls(() => page);
  const row = (name) => page.getByTestId('ams-cluster').filter({ hasText: name });
  const primary = () => page.locator('main .pf-m-primary').allInnerTexts();
  const screenshot = async (name, of) => {
    await row(of).scrollIntoViewIfNeeded();
    await browser.screenshot(name);
  };
  const state = (text) => page.getByTestId('ams-state').filter({ hasText: text }).waitFor();

  before(async () => {
    ams = await prepareAmsServer();
    site = await startSite({ serve: ['--release-images', release, ...ams.flags] });
    browser = await openBrowser(site.url, 'ams');
    ({ page } = browser);
    await register('harbor');
    await page.goto(`${site.url}/ams`);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
    await ams?.end();
  });

  it('shows pending changes without a login', async () => {
    await state('Not logged in');
    await row('harbor').getByText('Waiting', { exact: true }).waitFor();
    await row('harbor').getByText('There are no credentials').waitFor();
    await row('harbor').getByText('name harbor').waitFor();
    assert.deepEqual(await primary(), ['Log in']);
    await screenshot('waiting', 'harbor');
  });

  it('logs in while the site is offline', async () => {
    await button('Log in').click();
    await page.getByLabel('Client ID').fill('site');
    await page.getByLabel('Client secret').fill('secret');
    await button('Save the credentials').click();
    await state('Offline');
    await page.getByText('Next attempt').waitFor();
    assert.deepEqual(await primary(), ['Connect for ten minutes']);
    await screenshot('offline', 'harbor');
  });

  it('exports for a courier and reports it as lost', async () => {
    const [download] = await Promise.all([page.waitForEvent('download'), button('Export for a courier').click()]);
    assert.match(download.suggestedFilename(), /^landfall-ams-.+\.lfc$/);
    const file = await readFile(await download.path());
    assert.equal(file.readUInt16BE(), 0x1f8b, 'gzip');
    await page.getByText('with 1 cluster is pending').waitFor();
    await row('harbor').getByText('The cluster is in the courier file').waitFor();
    await screenshot('a-courier-is-out', 'harbor');
    await button('Report as lost').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Report as lost' }).click();
    await page.getByText('with 1 cluster is pending').waitFor({ state: 'detached' });
  });

  it('connects for ten minutes and sends all changes', async () => {
    await ams.start();
    await button('Connect for ten minutes').click();
    await row('harbor').getByText('Sent', { exact: true }).waitFor();
    await row('harbor').getByText('Reserved: name harbor').waitFor();
    await state('Connected');
    await page.getByText('Example (2GOuxr72XcFbrWvyA9rS9McOUjO)').waitFor();
    const rows = await ams.rows();
    assert.deepEqual(
      rows.map(({ display_name: name, status }) => [name, status]),
      [['harbor', 'Reserved']],
    );
    await row('harbor').getByText(rows[0].id).waitFor();
    await screenshot('sent', 'harbor');
  });

  it('shows a cluster that needs attention, with a remedy', async () => {
    await ams.break('create', 400, 8, 'The display name is not allowed');
    await register('pier');
    await row('pier').getByText('Needs attention', { exact: true }).waitFor();
    await row('pier').getByText('The display name is not allowed.').waitFor();
    await row('pier').getByText('400 ACCT-MGMT-8').waitFor();
    await row('pier').getByTestId('ams-todo').filter({ hasText: 'Edit the values to send' }).waitFor();
    await screenshot('needs-attention', 'pier');
  });

  it('retries after the cause is removed', async () => {
    await ams.heal();
    await page.getByRole('textbox', { name: 'Your name, for the events' }).fill('Ann');
    await row('pier').getByRole('button', { name: 'Try again', exact: true }).click();
    await row('pier').getByText('Sent', { exact: true }).waitFor();
    const events = await site.get('/v2/events');
    assert.ok(
      events.some(({ message }) => /pier.*Requested by Ann/.test(message)),
      'the event names the user',
    );
    await screenshot('retried', 'pier');
  });

  it("sends another name than the cluster's", async () => {
    await row('pier').getByRole('button', { name: 'Edit', exact: true }).click();
    await page.getByLabel('Name', { exact: true }).fill('the northern pier');
    await button('Send').click();
    await row('pier').getByText('Reserved: name the northern pier').waitFor();
    const names = (await ams.rows()).map(({ display_name: name }) => name);
    assert.deepEqual(names.sort(), ['harbor', 'the northern pier']);
  });

  it('creates a token for the ocm command', async () => {
    await button('Create a token').click();
    const command = await page.locator('input[value^="ocm login --token "]').inputValue();
    const [, token] = /--token (\S+) /.exec(command);
    const answer = await fetch(`${site.url}/api/accounts_mgmt/v1/current_account`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    assert.equal((await answer.json()).organization.id, '2GOuxr72XcFbrWvyA9rS9McOUjO');
  });

  it('no requests to other origins, no uncaught errors', () => {
    assert.deepEqual(browser.foreign, []);
    assert.deepEqual(browser.errors, []);
  });
});
