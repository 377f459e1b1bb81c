// The page of the appliance's registry: media that come and go, a verification, a copy on the disk,
// and the clusters that depend on it.

import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { account, logIn, password, setUp } from './accounts.mjs';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { until } from './clusters.mjs';
import { controls } from './controls.mjs';
import { layer, writeLayout } from './media.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const release = 'quay.io/openshift-release-dev/ocp-release:4.20.8-x86_64';

describe('the registry', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let stick;
  let apps;
  let tools;
  /** Whether the test answers for the appliance that there is a hand-over. */
  let hasHandOver = false;

  const step = dependentSteps(() => ({ site, browser }));
  const { button, heading } = controls(() => page);
  const { check } = accessibility(() => browser);
  const medium = (label) => page.getByTestId('medium').filter({ hasText: label });

  before(async () => {
    stick = await mkdtemp(join(tmpdir(), 'landfall-stick-'));
    const watched = join(stick, 'watched');
    await mkdir(watched);
    apps = await writeLayout(join(stick, 'apps'), {
      [release]: layer('release', 4_000_000),
      'quay.io/team/app:1': layer('app', 6_000_000),
      'quay.io/team/lost:1': layer('lost', 1_000),
    });
    await apps.removeLayer('quay.io/team/lost:1');
    await writeLayout(join(stick, 'tools'), { 'quay.io/team/tool:1': layer('tool', 5_000_000) });
    tools = join(stick, 'tools');
    site = await startSite({
      serve: [
        ...['--registry-listen', '127.0.0.1:0', '--registry-tls=false', '--registry-media', watched],
        ...['--egress-allow', '127.0.0.0/8'],
      ],
    });
    browser = await openBrowser(site.url, 'registry');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
    await rm(stick, { recursive: true, force: true });
  });

  step('says what to do without media', async () => {
    const refused = [];
    const note = (response) => response.status() >= 400 && refused.push(response.url());
    page.on('response', note);
    await page.goto(site.url);
    await page.getByRole('link', { name: 'Registry', exact: true }).click();
    await heading('Registry').waitFor();
    await page.getByTestId('no-media').getByText('Plug in the stick').waitFor();
    await page.getByText('has no media; plug one in').waitFor();
    await check('empty', async () => {
      await page.goto(`${site.url}/registry`);
      await page.getByTestId('no-media').waitFor();
      await page.getByTestId('next-command').waitFor();
    });
    assert.deepEqual(refused, [], 'the page asks for no hand-over that there is not');
    page.off('response', note);
  });

  step('reads a medium that is plugged in at a watched path', async () => {
    await rename(tools, join(stick, 'watched', 'tools'));
    await medium('watched/tools').getByText('Present').waitFor();
    await rename(join(stick, 'watched', 'tools'), tools);
    await medium('watched/tools').getByText('Missing').waitFor();
    await browser.screenshot('a-missing-medium');
    await rename(tools, join(stick, 'watched', 'tools'));
    await medium('watched/tools').getByText('Present').waitFor();
  });

  step('adds a path, and explains a wrong one', async () => {
    await button('Add media').click();
    const dialog = page.getByRole('dialog');
    const path = dialog.getByRole('textbox', { name: "Path on the appliance's machine" });
    await until('the field has the focus', () => path.evaluate((one) => one === document.activeElement));
    await path.fill(join(stick, 'nowhere'));
    await page.keyboard.press('Enter');
    await dialog.getByText("can't be read on the appliance's machine").waitFor();
    await path.fill(join(stick, 'apps'));
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await medium('apps').getByText('OpenShift 4.20.8 (x86_64)').waitFor();
    await page.getByTestId('release').getByText('Allowed', { exact: true }).waitFor();
    await page.getByTestId('gap').getByText('quay.io/team/lost:1').waitFor();
    await browser.screenshot('media');
  });

  step('verifies all blobs', async () => {
    await button('Verify all blobs').click();
    await page.getByTestId('verdict').getByText('match their digests').waitFor();
    await apps.damageLayer('quay.io/team/app:1');
    await button('Verify all blobs').click();
    await page.getByTestId('verdict').getByText('1 blob is damaged. The list says what makes them sound.').waitFor();
    await page.getByTestId('registry-media').getByText(/sha256:[0-9a-f]{64} is damaged/).waitFor();
    await browser.screenshot('a-damaged-blob');
  });

  step('copies a medium to the disk after it has said what that needs', async () => {
    await button('Copy to the disk: watched/tools').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByTestId('plan').getByText(/The copy of watched\/tools needs 4\.8 MiB\. There is room/).waitFor();
    await browser.screenshot('the-space-of-a-copy');
    await button('Copy', dialog).click();
    await medium('watched/tools').getByText('Copied: the medium is not needed').waitFor();
    await rename(join(stick, 'watched', 'tools'), tools);
    await medium('watched/tools').getByText('Missing').waitFor();
    await page.getByText(/Copies of media/).waitFor();
    await button('Give up the copy of watched/tools').click();
    await button('Give up the copy', page.getByRole('dialog')).click();
    await button('Give up the copy of watched/tools').waitFor({ state: 'detached' });
    await button('Clean up').click();
    await page.getByTestId('removed').getByText(/Removed \d files, 4\.8 MiB/).waitFor();
  });

  step('removes a path that was added', async () => {
    await mkdir(join(stick, 'other'));
    await writeLayout(join(stick, 'other', 'more'), { 'quay.io/team/more:1': layer('more', 1_000) });
    const path = join(stick, 'other');
    await button('Add media').click();
    await page.getByRole('textbox', { name: "Path on the appliance's machine" }).fill(path);
    await page.keyboard.press('Enter');
    await medium('other/more').getByText('Present').waitFor();
    await button(`Remove the path ${path}`).click();
    await button('Remove the path', page.getByRole('dialog')).click();
    await medium('other/more').waitFor({ state: 'detached' });
    await browser.screenshot('a-removed-path');
  });

  step('names the clusters that depend on it', async () => {
    const cluster = await site.post('/v2/clusters', {
      name: 'east',
      base_dns_domain: 'site.test',
      openshift_version: '4.20.8',
      pull_secret: JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } }),
    });
    // An installation takes minutes; the appliance's own tests have it.
    const { id, name, base_dns_domain } = cluster;
    await page.route('**/api/landfall/v1/registry', async (route) => {
      const response = await route.fetch();
      const dependents = [{ id, name, base_dns_domain, status: 'installed' }];
      const registry = await response.json();
      const hand_over = registry.hand_over || hasHandOver;
      await route.fulfill({ response, json: { ...registry, dependents, hand_over } });
    });
    const row = page.getByTestId('dependent').filter({ hasText: 'east.site.test' });
    await row.getByText('Not checked').waitFor();
    await button('Check its images: east').click();
    await row.getByText('Not checked').waitFor({ state: 'detached' });
    await check('full', async () => {
      await page.goto(`${site.url}/registry`);
      await row.waitFor();
      await page.getByTestId('release').getByText('Allowed', { exact: true }).waitFor();
    });
  });

  step('shows its clients, and a hand-over with the DNS record to set', async () => {
    await page.getByTestId('next-command').getByText('landfall registry hand-over', { exact: true }).waitFor();
    const { host } = await (await fetch(`${site.url}/api/landfall/v1/registry`)).json();
    const manifest = 'quay.io/openshift-release-dev/ocp-release/manifests/4.20.8-x86_64';
    assert.equal((await fetch(`http://${host}/v2/${manifest}`)).status, 200);
    await page.getByTestId('client').getByText('127.0.0.1').waitFor();
    const text = 'mirror.site.test. 300 IN A 192.0.2.5';
    const handOver = {
      ...{ way: 'add-mirror', name: 'mirror.site.test:5000', to: 'registry.site.test:5000', state: 'naming' },
      message: 'The site\'s registry has everything. Let the DNS name mirror.site.test lead to 192.0.2.5.',
      ...{ by: 'anna', started: new Date().toISOString(), bytes: 4_000_000, bytes_done: 3_000_000 },
      ...{ incomplete: ['team/lost:1'], notes: [], dns_record: { text }, proofs: [] },
      clusters: [
        {
          ...{ id: 'east', name: 'east.site.test', state: 'rolling-in' },
          pools: [{ name: 'master', machines: 3, updated: 1 }],
        },
      ],
    };
    await page.route('**/api/landfall/v1/registry/hand-over', (route) => route.fulfill({ json: handOver }));
    hasHandOver = true;
    await check('hand-over', async () => {
      await page.goto(`${site.url}/registry`);
      await page.getByTestId('registry-hand-over').getByText('master 1 of 3').waitFor();
      await page.getByTestId('hand-over-record').getByText(text).waitFor();
    });
    await button('Copy the DNS record').click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), text);
  });

  step('stops a hand-over, and removes the first mirror, with the word of a person', async () => {
    const shown = {
      ...{ way: 'add-mirror', name: 'mirror.site.test:5000', to: 'registry.site.test:5000', needed: false },
      ...{ message: 'It waits.', by: 'anna', started: new Date().toISOString(), images: 3, bytes: 4, bytes_done: 4 },
      ...{ incomplete: [], notes: [], proofs: [] },
      clusters: [{ id: 'east', name: 'east.site.test', state: 'both', pools: [] }],
    };
    await page.unroute('**/api/landfall/v1/registry/hand-over');
    let state = 'asking';
    await page.route('**/api/landfall/v1/registry/hand-over', (route) =>
      route.fulfill({ json: { ...shown, state } }),
    );
    await page.goto(`${site.url}/registry`);
    await button('Remove the first mirror').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('east.site.test then pull from registry.site.test:5000 only.').waitFor();
    await button('Cancel', dialog).click();
    await button('Remove the first mirror').click();
    // The appliance of this test has no such hand-over.
    const refused = page.waitForResponse('**/hand-over/confirm');
    await button('Remove the first mirror', dialog).click();
    assert.equal((await refused).status(), 404);
    await page.getByTestId('registry-hand-over').getByText('No hand-over').waitFor();
    state = 'copying';
    await button('Stop the hand-over').click();
    const stopped = page.waitForResponse('**/hand-over/cancel');
    await button('Stop the hand-over', dialog).click();
    assert.equal((await stopped).status(), 404);
    await page.unroute('**/api/landfall/v1/registry/hand-over');
    hasHandOver = false;
    browser.errors.length = 0; // the two answers above
  });

  step('hands the registry over to another one, with progress', async () => {
    const later = await startSite({
      accounts: true,
      serve: ['--registry-listen', '127.0.0.1:0', '--registry-tls=false'],
    });
    try {
      const other = await (await browser.another()).newPage();
      await setUp(later, other, 'anna');
      const { host } = await (await later.send('GET', '/api/landfall/v1/registry')).json();
      const made = await later.send('POST', '/api/landfall/v1/tokens', { name: 'writer', role: 'operator' });
      const { token } = await made.json();
      await page.goto(`${site.url}/registry`);
      await button('Hand the registry over').click();
      const dialog = page.getByRole('dialog');
      const field = (name) => dialog.getByRole('textbox', { name });
      await field('Registry of the site').fill(host);
      const wrong = JSON.stringify({ auths: { 'elsewhere.test': { auth: 'YTpi' } } });
      await dialog.getByLabel('Pull secret that may push').fill(wrong);
      await button('Show what is copied', dialog).click();
      await dialog.getByText(`has no entry for ${host}`).waitFor();
      const auth = Buffer.from(`writer:${token}`).toString('base64');
      await dialog.getByLabel('Pull secret that may push').fill(JSON.stringify({ auths: { [host]: { auth } } }));
      await button('Show what is copied', dialog).click();
      await dialog.getByTestId('hand-over-plan').getByText(`are copied to ${host}. No cluster`).waitFor();
      await browser.screenshot('the-plan-of-a-hand-over');
      await button('Hand over', dialog).click();
      const card = page.getByTestId('registry-hand-over');
      await card.getByText(/the medium watched\/tools is missing since .* It is tried again\./).waitFor();
      await browser.screenshot('a-hand-over-that-waits');
      await button('Stop the hand-over').click();
      await button('Stop the hand-over', dialog).click();
      await card.getByText('Stopped', { exact: true }).waitFor();
      await rename(tools, join(stick, 'watched', 'tools'));
      await medium('watched/tools').getByText('Present').waitFor();
      await button('Hand the registry over').click();
      assert.equal(await field('Registry of the site').inputValue(), host);
      await dialog.getByLabel('Pull secret that may push').fill(JSON.stringify({ auths: { [host]: { auth } } }));
      await button('Hand over', dialog).click();
      await card.getByText('Done', { exact: true }).waitFor();
      await card.getByRole('progressbar', { name: 'Copied' }).waitFor();
      const manifest = 'quay.io/openshift-release-dev/ocp-release/manifests/4.20.8-x86_64';
      assert.equal((await fetch(`http://${host}/v2/${manifest}`)).status, 200);
      await browser.screenshot('a-hand-over');
      await button('Take the registry back').click();
      await button('Take the registry back', dialog).click();
      await card.getByText('Stopped', { exact: true }).waitFor();
      await button('Hand the registry over').waitFor();
      await other.context().close();
    } finally {
      await later.end();
    }
  });

  step('a new path: no finding in any width and theme', () =>
    check('add', async () => {
      await page.goto(`${site.url}/registry`);
      await button('Add media').click();
      await page.getByRole('dialog').getByRole('textbox').waitFor();
    }));

  step('the form of a hand-over: no finding in any width and theme', () =>
    check('hand-over-form', async () => {
      await page.goto(`${site.url}/registry`);
      await button('Hand the registry over').click();
      await page.getByRole('dialog').getByRole('textbox', { name: 'Registry of the site' }).waitFor();
    }));

  step('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});

describe('the registry for people with different roles', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let stick;

  before(async () => {
    stick = await mkdtemp(join(tmpdir(), 'landfall-stick-'));
    await writeLayout(join(stick, 'apps'), { 'quay.io/team/app:1': layer('app', 1_000) });
    site = await startSite({ accounts: true, serve: ['--registry-listen', '127.0.0.1:0', '--registry-media', stick] });
    browser = await openBrowser(site.url, 'registry-roles');
    await setUp(site, browser.page, 'anna');
  });
  after(async () => {
    await browser?.close();
    await site?.end();
    await rm(stick, { recursive: true, force: true });
  });

  for (const [name, role, offered] of [
    ['vera', 'viewer', []],
    ['oscar', 'operator', ['Verify all blobs']],
    ['anton', 'admin', ['Add media', 'Clean up', 'Copy to the disk', 'Hand the registry over', 'Verify all blobs']],
  ]) {
    it(`offers a person with the role ${role} what the role may do`, async () => {
      assert.equal((await site.send('POST', '/api/landfall/v1/users', { name, password, role })).status, 201);
      const page = await (await browser.another()).newPage();
      await page.goto(site.url);
      await logIn(page, name);
      await account(name, page).waitFor();
      await page.goto(`${site.url}/registry`);
      await page.getByTestId('medium').getByText('Present').waitFor();
      await page.getByTestId('next-command').waitFor(); // and the buttons of the hand-over
      const names = await page.locator('#main button').allInnerTexts();
      assert.deepEqual(names.filter((text) => text !== '').sort(), offered);
      await page.context().close();
    });
  }
});
