// The page of the network services for a site: switches, their warnings, DNS records, reservations.
// The services run on the loopback.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { account, logIn, password, setUp } from './accounts.mjs';
import { accessibility } from './axe.mjs';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';

const mac = '52:54:00:00:00:01';

describe('the services of a site', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;

  const step = dependentSteps(() => ({ site, browser }));
  const { button, heading } = controls(() => page);
  const { check } = accessibility(() => browser);
  const services = async () => (await (await fetch(`${site.url}/api/landfall/v1/site-services`)).json()).services;
  const toggle = (name) => page.getByRole('switch', { name, exact: true });
  // The switch is a transparent input below a picture of a switch.
  const press = (name) => toggle(name).press('Space');

  before(async () => {
    site = await startSite({ hosts: 3 });
    browser = await openBrowser(site.url, 'services');
    ({ page } = browser);
    // The page offers only interfaces that lead to hosts.
    await page.route('**/api/landfall/v1/site-services', async (route) => {
      const response = await route.fetch();
      const interfaces = [{ name: 'lo', addresses: ['127.0.0.1/8'] }];
      await route.fulfill({ response, json: { ...(await response.json()), interfaces } });
    });
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('switches a service on with the keyboard, after a warning', async () => {
    await page.goto(site.url);
    await page.getByRole('link', { name: 'Site services', exact: true }).click();
    await heading('Site services').waitFor();
    await press('DNS on lo');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('these names no longer resolve').waitFor();
    await browser.screenshot('a-warning');
    await button('Cancel', dialog).click();
    assert.deepEqual(await services(), []);
    assert.equal(await toggle('DNS on lo').isChecked(), false);
    await press('DNS on lo');
    await button('Switch on', dialog).click();
    await dialog.waitFor({ state: 'detached' });
    await page.waitForFunction(() => document.querySelector('[aria-label="DNS on lo"]')?.checked);
    assert.deepEqual((await services()).map((one) => [one.service, one.interface]), [['dns', 'lo']]);
  });

  step('declares the clock', async () => {
    await press('NTP on lo');
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('checkbox', { name: /^Declare this machine's clock/ }).check();
    await button('Switch on', dialog).click();
    await page.getByText("This machine's clock is declared as the time of the site.").waitFor();
    assert.equal((await services()).find((one) => one.service === 'ntp').local_clock, true);
  });

  step('asks for the mode of DHCP, and explains a wrong range', async () => {
    await press('DHCP and network boot on lo');
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('radio', { name: 'All machines' }).check();
    const range = dialog.getByRole('textbox', { name: 'Range' });
    await range.fill('192.0.2.9');
    await button('Switch on', dialog).click();
    await dialog.getByText(/FIRST-LAST|first and the last|range/i).first().waitFor();
    await dialog.getByText(/^Danger alert/).waitFor();
    await range.fill('127.0.0.100-127.0.0.199');
    await button('Switch on', dialog).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByText('Addresses for all machines: 127.0.0.100-127.0.0.199.').waitFor();
    await page.getByText('It belongs to DHCP on this interface.').waitFor();
    assert.ok(await toggle('TFTP on lo').isDisabled());
    await browser.screenshot('services');
  });

  step('switches a service off', async () => {
    await press('DHCP and network boot on lo');
    const dialog = page.getByRole('dialog');
    await dialog.getByText('Hosts that use this service on lo lose it.').waitFor();
    await button('Switch off', dialog).click();
    await page.getByText('Addresses for all machines').waitFor({ state: 'detached' });
    assert.ok(!(await services()).some(({ service }) => service === 'dhcp'));
  });

  step('shows the DNS records of a cluster, to copy', async () => {
    const record = page.getByTestId('record').filter({ hasText: /^api\.demo\./ });
    await record.first().waitFor();
    const [{ name, api_vips: vips, base_dns_domain: domain }] = await site.get('/v2/clusters');
    const line = `api.${name}.${domain}. 60 IN A ${vips[0].ip}`;
    await button(`Copy the record api.${name}.${domain} A`).click();
    const clipboard = () => page.evaluate(() => navigator.clipboard.readText());
    assert.equal(await clipboard(), line);
    await button(`Copy all records of ${name}.${domain}`).click();
    assert.ok((await clipboard()).split('\n').includes(line));
  });

  step('reserves an address, and removes the reservation', async () => {
    const dialog = page.getByRole('dialog');
    await button('Reserve an address').click();
    await dialog.getByRole('textbox', { name: 'MAC address' }).fill('nothing');
    await dialog.getByRole('textbox', { name: 'Address', exact: true }).fill('192.0.2.10');
    await page.keyboard.press('Enter');
    await dialog.getByText(/^Danger alert/).waitFor();
    await dialog.getByRole('textbox', { name: 'MAC address' }).fill(mac);
    await page.keyboard.press('Enter');
    const row = page.getByTestId('reservation').filter({ hasText: mac });
    await row.getByText('192.0.2.10').waitFor();
    await check('services', async () => {
      await page.goto(`${site.url}/site-services`);
      await row.waitFor();
      await page.getByTestId('record').first().waitFor();
    });
    await button(`Remove the reservation of ${mac}`).click();
    await button('Remove', dialog).click();
    await row.waitFor({ state: 'detached' });
  });

  step('a mode of DHCP: no finding in any width and theme', () =>
    check('mode', async () => {
      await page.goto(`${site.url}/site-services`);
      await press('DHCP and network boot on lo');
      await page.getByRole('dialog').getByRole('radio', { name: 'All machines' }).check();
    }));

  step('no requests to other origins, no errors', () => {
    assert.deepEqual([browser.foreign, browser.errors], [[], []]);
  });
});

describe('the services of a site for people with different roles', { timeout: fileLimit }, () => {
  let site;
  let browser;

  before(async () => {
    site = await startSite({ accounts: true });
    browser = await openBrowser(site.url, 'services-roles');
    await setUp(site, browser.page, 'anna');
    assert.equal((await site.send('PUT', '/api/landfall/v1/site-services/dns/lo', {})).status, 200);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  for (const [name, role, offered, switches] of [
    ['vera', 'viewer', [], false],
    ['oscar', 'operator', ['Reserve an address'], false],
    ['anton', 'admin', ['Reserve an address'], true],
  ]) {
    it(`offers a person with the role ${role} what the role may do`, async () => {
      assert.equal((await site.send('POST', '/api/landfall/v1/users', { name, password, role })).status, 201);
      const page = await (await browser.another()).newPage();
      await page.goto(site.url);
      await logIn(page, name);
      await account(name, page).waitFor();
      await page.goto(`${site.url}/site-services`);
      await page.getByTestId('service-place').filter({ hasText: 'lo' }).first().waitFor();
      await page.getByRole('heading', { name: 'Reservations', exact: true }).waitFor();
      assert.deepEqual(await page.locator('#main button').allInnerTexts(), offered);
      assert.equal((await page.getByRole('switch').count()) > 0, switches);
      await page.context().close();
    });
  }
});
