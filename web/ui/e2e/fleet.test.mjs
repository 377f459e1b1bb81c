// The fleet on the overview: its members, those that are away, and etcd; and the choice of an audit
// trail. The answer is that of a fleet; the appliance is a single machine.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { fileLimit, startSite } from './site.mjs';

const member = (name, more) => ({
  name,
  url: `https://${name}.site.example.com:8090`,
  version: 'v1.2.0',
  role: 'follower',
  records: 1200,
  behind: 0,
  lag_seconds: 0,
  missing_contents: 0,
  missing_live_isos: 0,
  missing_blobs: 0,
  clock_seconds: 0,
  ...more,
});
const server = { version: '3.6.1', latency_seconds: 0.002, bytes: 2 ** 20, no_space: false, damaged: false };
const fleet = {
  fleet: '51585607-89fd-4c63-a70d-9c70c008b455',
  leading: 'one',
  since: '2026-01-02T03:04:05Z',
  records: 1200,
  members: [member('one', { role: 'leader' }), member('two', { role: 'away', seen: '2026-01-02T03:00:00Z' })],
  etcd_servers: [
    { ...server, url: 'http://192.0.2.5:2379', leader: true },
    { ...server, url: 'http://192.0.2.6:2379', leader: false, problem: 'It does not answer.' },
  ],
  loss: 'A loss of one stops the appliance until its machine is back, because no other member is there.',
  safe: false,
};

describe('a fleet on the overview', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let answer = fleet;

  const { check } = accessibility(() => browser);
  const card = () => page.getByTestId('overview-fleet');
  const row = (name) => page.getByRole('grid', { name: 'Members of the fleet' }).getByRole('row', { name });

  before(async () => {
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'fleet');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('is not shown for a single machine', async () => {
    await page.goto(site.url);
    await page.getByTestId('overview-disk').waitFor();
    assert.equal(await card().count(), 0);
  });

  it('shows members that are away, and what a loss would cost', async () => {
    await page.route('**/api/landfall/v1/fleet', (route) => route.fulfill({ json: answer }));
    await page.route('**/api/landfall/v1/overview', async (route) => {
      const overview = await route.fetch();
      await route.fulfill({ json: { ...(await overview.json()), fleet: true } });
    });
    await page.reload();
    await card().getByText(fleet.loss).waitFor();
    await row('two').getByText('Away').waitFor();
    await row('two').getByText('Last seen').waitFor();
    await row('one').getByText('Leads').waitFor();
    await card().getByText('Does not answer', { exact: true }).waitFor();
    await check('fleet', () => card().waitFor());
  });

  it('fits a phone', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await card().scrollIntoViewIfNeeded();
    await browser.screenshot('a-phone');
    const { scroll, client } = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth,
      client: document.documentElement.clientWidth,
    }));
    assert.ok(scroll <= client, `${String(scroll)} > ${String(client)}`);
    await page.setViewportSize({ width: 1280, height: 900 });
    await card().scrollIntoViewIfNeeded();
    await browser.screenshot('a-desktop');
  });

  it('follows the fleet', async () => {
    answer = { ...fleet, members: [member('one'), member('two', { role: 'leader' })], leading: 'two', safe: true };
    await row('two').getByText('Leads').waitFor();
    await row('one').getByText('Follows').waitFor();
  });

  it('offers the audit trail of each member', async () => {
    const asked = page.waitForRequest(/\/audit\?.*member=two/);
    await page.goto(`${site.url}/access?tab=audit`);
    await page.getByLabel('Audit trail of').selectOption('two');
    await asked;
    await page.getByText('is in no fleet').first().waitFor(); // the appliance is a single machine
    const href = await page.getByRole('link', { name: 'Export' }).getAttribute('href');
    assert.equal(href, '/api/landfall/v1/audit/export?member=two');
    await page.getByLabel('Audit trail of').selectOption('');
    await page.getByTestId('audit-item').first().waitFor();
  });
});
