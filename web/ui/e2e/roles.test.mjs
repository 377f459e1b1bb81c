// The page of people with different roles: it offers what each of them may do, and nothing else.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe } from 'node:test';
import { account, logIn, password, setUp } from './accounts.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, freePort, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const minute = 60_000;
const pullSecret = JSON.stringify({ auths: { 'quay.io': { auth: 'dXNlcjpwYXNz' } } });
const bmcPassword = 'calvin-of-the-bmc';

/** The pages, each with a text that it shows when it is complete. */
const places = (cluster) => [
  ['/assisted-installer/clusters', 'hidden'],
  [`/assisted-installer/clusters/${cluster}`, 'The cluster is installed.'],
  ['/servers', 'rack-1'],
  ['/os-images', 'x86_64'],
  ['/networks', 'Infra-env'],
  ['/mirror', 'Rules for'],
  ['/doctor', 'Check again'],
  ['/ams', 'guarded'],
];

/** The names of buttons and inputs that change nothing. */
const readsOnly = [
  // The list of clusters and its filters.
  /^(Name, domain, version or ID|State|OpenShift version|Cluster|OpenShift|Hosts|Created|\d+ - \d+ of \d+)$/,
  // A cluster.
  /^(Download logs|Show the (times of all stages|events)|(Copy: )?Address of the (console|API))$/,
  /^Show as a QR code: /,
  // Filters and details of the other pages.
  /^(All|With an error|Needs attention|Waiting|Sent|Ended)\b/,
  /^(Part of the name.*|Infra-env|Rules for|Release|Image to explain|Explain|Cluster|Check again|Details|Request log)$/,
  /^(Show \d+ more of this kind|Find rules|Go to (previous|next) page)$/,
  /^(dhcp|with-passed)$/,
];

describe('people with different roles', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let anna;
  let oscar;
  let vera;
  let hidden;
  let cluster;

  const step = dependentSteps(() => ({ site, browser }));

  const { button, heading } = controls(() => anna);
  const on = controls(() => oscar);
  const open = async (name) => {
    const page = await (await browser.another()).newPage();
    await page.goto(site.url);
    await logIn(page, name);
    await account(name, page).waitFor();
    return page;
  };
  const path = (id) => `/assisted-installer/clusters/${id}`;

  before(async () => {
    site = await startSite({ accounts: true });
    browser = await openBrowser(site.url, 'roles');
    anna = browser.page;
    await setUp(site, anna, 'anna');
    const [version] = Object.keys(await site.get('/v2/openshift-versions'));
    hidden = await site.post('/v2/clusters', {
      name: 'hidden',
      openshift_version: version,
      base_dns_domain: 'site.test',
      pull_secret: pullSecret,
    });
    for (const [name, role] of [
      ['vera', 'viewer'],
      ['oscar', 'operator'],
    ]) {
      assert.equal((await site.send('POST', '/api/landfall/v1/users', { name, password, role })).status, 201);
    }
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('lets an administrator add a server with its password', async () => {
    await anna.goto(`${site.url}/servers`);
    await button('Add a server').click();
    const dialog = anna.getByRole('dialog');
    await dialog.getByLabel('Name', { exact: false }).first().fill('rack-1');
    await dialog.getByLabel('Address of the BMC').fill(`redfish+http://127.0.0.1:${String(await freePort())}`);
    await dialog.getByLabel('User name').fill('root');
    await dialog.getByLabel('Password').fill(bmcPassword);
    await button('Add', dialog).click();
    await anna.getByTestId('bmc-server').or(anna.getByText('rack-1')).first().waitFor();
  });

  step('lets an operator create a cluster', async () => {
    oscar = await open('oscar');
    await oscar.goto(`${site.url}/assisted-installer/clusters/~new`);
    await oscar.getByRole('textbox', { name: 'Cluster name' }).fill('guarded');
    await oscar.getByRole('textbox', { name: 'Base domain' }).fill('site.test');
    await oscar.getByRole('textbox', { name: 'Pull secret' }).fill(pullSecret);
    await on.next();
    await on.heading('Operators').waitFor();
    await on.next();
    await on.heading('Host discovery').waitFor();
    cluster = on.clusterId();
  });

  step('lets an operator seal and unseal the image', async () => {
    const state = (text) => oscar.getByTestId('sealed-image-state').filter({ hasText: text }).waitFor();
    const dialog = oscar.getByRole('dialog');
    await state('The image contains the config');
    await on.button('Seal the image').click();
    await dialog.getByLabel('Machines may fetch the config for').selectOption({ label: '8 hours' });
    await dialog.getByLabel('Largest number of machines', { exact: true }).fill('3');
    await on.button('Seal', dialog).click();
    await state(/The image is sealed\. Machines can fetch its config until .*, at most 3\./);
    await browser.screenshot('a-sealed-image', oscar);
    await on.button('Close now').click();
    await state('no machine can fetch its config');
    await on.button('Open again').click();
    await on.button('Open', dialog).click();
    await state('The image is sealed. Machines can fetch its config until');
    await on.button('Unseal').click();
    await on.button('Unseal', dialog).click();
    await state('The image contains the config');
  });

  step('lets an operator install the cluster', async () => {
    const [infraEnv] = await site.get(`/v2/infra-envs?cluster_id=${cluster}`);
    site.bootHosts(infraEnv.id, 3, { speed: 200 });
    await on
      .button('Ready')
      .nth(2)
      .waitFor({ timeout: 2 * minute });
    await on.next();
    await on.heading('Storage').waitFor();
    await on.next();
    await on.heading('Networking').waitFor();
    const { host_networks: networks } = await site.get(`/v2/clusters/${cluster}`);
    const [net] = networks[0].cidr.split(/\.\d+\//);
    await oscar.getByRole('textbox', { name: /API IP/ }).fill(`${net}.200`);
    await oscar.getByRole('textbox', { name: /Ingress IP/ }).fill(`${net}.201`);
    await oscar.keyboard.press('Tab');
    await on.button('Next').click({ timeout: 2 * minute });
    await on.heading('Review and install').waitFor();
    await on.button('Install cluster').click({ timeout: minute });
    await on.heading('Installation progress').waitFor({ timeout: minute });
    await oscar.getByText('The cluster is installed.').waitFor({ timeout: 3 * minute });
  });

  step('shows an operator no secrets of the cluster', async () => {
    await oscar.getByTestId('no-credentials').waitFor();
    assert.equal(await oscar.getByRole('link', { name: 'Download the kubeconfig' }).count(), 0);
    const { password: kubeadmin } = await site.get(`/v2/clusters/${cluster}/credentials`);
    assert.ok(!(await oscar.content()).includes(kubeadmin));
  });

  step('shows an operator a server without its password', async () => {
    await oscar.goto(`${site.url}/servers`);
    await oscar.getByText('rack-1').first().waitFor();
    const answer = await oscar.evaluate(async (path) => (await fetch(path)).text(), '/api/landfall/v1/bmcs');
    assert.match(answer, /rack-1/);
    assert.ok(!answer.includes(bmcPassword));
    assert.equal(await on.button('Add a server').count(), 0);
    await oscar.getByRole('button', { name: 'Boot now' }).waitFor();
  });

  step('shows an operator neither accounts nor tokens nor the audit trail', async () => {
    await oscar.goto(`${site.url}/access`);
    await oscar.getByRole('tab').first().waitFor();
    assert.deepEqual(await oscar.getByRole('tab').allInnerTexts(), ['Hosts', 'My account']);
    for (const tab of ['people', 'programs', 'audit']) {
      await oscar.goto(`${site.url}/access?tab=${tab}`);
      await oscar.getByRole('tab', { name: 'My account', selected: true }).waitFor();
      await oscar.getByRole('tabpanel', { name: 'My account' }).getByText('My password').waitFor();
    }
  });

  step('shows a viewer nothing that changes something', async () => {
    vera = await open('vera');
    const found = [];
    for (const [place, complete] of places(cluster)) {
      await vera.goto(site.url + place);
      await vera.getByRole('main').getByText(complete).or(vera.getByLabel(complete)).first().waitFor();
      await browser.screenshot(`vera${place.slice(0, 24).replaceAll('/', '-')}`, vera);
      const parts = vera.getByRole('main').locator('button:enabled, input:enabled, select:enabled, textarea:enabled');
      const names = await parts.evaluateAll((elements) =>
        elements.map(({ ariaLabel, innerText, id, tagName }) =>
          (ariaLabel || (tagName === 'SELECT' ? '' : innerText.trim()) || id).replaceAll(/\s+/g, ' '),
        ),
      );
      found.push(
        ...names
          .filter((name) => name !== '' && !readsOnly.some((pattern) => pattern.test(name)))
          .map((name) => `${place}: ${name}`),
      );
    }
    assert.deepEqual(found, [], 'a viewer finds these; add those that change nothing to readsOnly');
  });

  step('shows a person with a scope only the clusters in it', async () => {
    const made = await site.send('POST', '/api/landfall/v1/users', {
      name: 'lena',
      password,
      role: 'operator',
      clusters: [cluster],
    });
    assert.equal(made.status, 201);
    const lena = await open('lena');
    await lena.getByRole('link', { name: 'guarded' }).waitFor();
    assert.equal(await lena.getByText('hidden').count(), 0);
    await lena.goto(site.url + path(cluster));
    await heading('guarded', lena).waitFor();
    const [refused] = await Promise.all([
      lena.waitForResponse((response) => response.status() >= 400 && response.url().includes(hidden.id)),
      lena.goto(site.url + path(hidden.id)),
    ]);
    assert.equal(refused.status(), 403);
    await browser.screenshot('a-cluster-outside-of-the-scope', lena);
    assert.equal(await lena.getByText('hidden').count(), 0);
    await lena.goto(`${site.url}/servers`);
    await heading('This page is about the whole site', lena).waitFor();
  });

  step('shows an administrator the scope, and lets them change the account', async () => {
    const row = anna.getByRole('row').filter({ hasText: 'lena' });
    await anna.goto(`${site.url}/access?tab=people`);
    await row.getByText('cluster guarded').waitFor();
    await row.getByRole('combobox', { name: 'Role of lena' }).selectOption('viewer');
    await anna.getByRole('dialog').getByText('Make lena a viewer?').waitFor();
    await button('Change the role', anna.getByRole('dialog')).click();
    await browser.screenshot('people');
    await button('Disable', row).click();
    await button('Disable', anna.getByRole('dialog')).click();
    await row.getByText('lena (disabled)').waitFor();
    await button('Delete', row).click();
    await button('Delete', anna.getByRole('dialog')).click();
    await row.waitFor({ state: 'detached' });
    const left = await (await site.send('GET', '/api/landfall/v1/users')).json();
    assert.deepEqual(left.map(({ name }) => name).sort(), ['anna', 'oscar', 'vera']);
  });

  step('shows an administrator the secrets of the cluster', async () => {
    await anna.goto(site.url + path(cluster));
    const [download] = await Promise.all([
      anna.waitForEvent('download'),
      anna.getByRole('link', { name: 'Download the kubeconfig' }).click(),
    ]);
    assert.match(await readFile(await download.path(), 'utf8'), /^kind: Config$/m);
  });

  step('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});
