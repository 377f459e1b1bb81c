// The page of hosts' networks: the form with its preview, a conflict, own YAML, and an image with
// the settings.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { controls } from './controls.mjs';
import { fileLimit, startSite } from './site.mjs';
import { dependentSteps } from './steps.mjs';


describe('networks without DHCP', { timeout: fileLimit }, () => {
  let site;
  let browser;
  let page;
  let infraEnv;

  const step = dependentSteps(() => ({ site, browser }));

  const { button } = controls(() => page);
  const field = (name) => page.getByRole('textbox', { name, exact: true });
  const host = (number) => page.getByTestId('network-host').nth(number);
  const saved = async () => JSON.parse((await site.get(`/v2/infra-envs/${infraEnv}`)).static_network_config);

  before(async () => {
    site = await startSite({ hosts: 1 });
    browser = await openBrowser(site.url, 'networks');
    ({ page } = browser);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  step('shows keyfiles of a VLAN on a bond', async () => {
    await page.goto(site.url);
    await page.getByRole('link', { name: 'Networks' }).click();
    await page.waitForURL('**/networks');
    infraEnv = await page.getByRole('combobox', { name: 'Infra-env' }).inputValue();
    await button('Add a host').click();
    await field('MAC address 1').fill('52:54:00:00:aa:01');
    await button('Add a NIC').click();
    await field('MAC address 2').fill('52:54:00:00:aa:02');
    await page.getByLabel('Bond', { exact: true }).selectOption({ label: 'All NICs, 802.3ad' });
    await field('VLAN').fill('100');
    await field('IPv4 address').fill('192.0.2.10/24');
    await field('IPv4 gateway').fill('192.0.2.1');
    await page.getByLabel('IPv6 addresses', { exact: true }).selectOption({ label: 'static' });
    await field('IPv6 address').fill('2001:db8::a/64');
    await field('Name servers').fill('192.0.2.53, 2001:db8::53');
    const preview = page.getByTestId('network-preview');
    await preview.getByText('dns=2001:db8::53;').waitFor();
    for (const line of [
      'bond0.100.nmconnection',
      'mode=802.3ad',
      'address1=192.0.2.10/24',
      'route1=0.0.0.0/0,192.0.2.1,0',
      'mac-address=52:54:00:00:AA:02',
    ]) {
      await preview.getByText(line).first().waitFor();
    }
    await page.getByTestId('networks-form').filter({ hasText: 'every release and kind of image' }).waitFor();
  });

  step('keeps unsaved changes when another page is opened', async () => {
    const unsaved = page.getByTestId('networks-unsaved');
    await unsaved.waitFor();
    const cards = await page.getByRole('button', { name: /^Host 1/ }).count();
    await page.getByRole('link', { name: 'Mirror', exact: true }).click();
    await page.getByRole('heading', { name: 'Mirror', exact: true }).waitFor();
    await page.goBack();
    await unsaved.waitFor();
    assert.equal(await page.getByRole('button', { name: /^Host 1/ }).count(), cards);
  });

  step('reports an address of two hosts', async () => {
    await button('Add a host').click();
    await field('MAC address 1').fill('52:54:00:00:aa:03');
    await field('MAC address 2').fill('52:54:00:00:aa:04');
    await field('IPv6 address').fill('2001:db8::b/64');
    await field('IPv4 address').fill('192.0.2.10/24');
    await page
      .getByTestId('network-fault')
      .filter({ hasText: 'is 192.0.2.10, which is already an address of bond0.100 of host 0.' })
      .waitFor();
    await button('Save').click();
    await page
      .getByTestId('networks-outcome')
      .filter({ hasText: 'host 1: interfaces[1].ipv4.address[0].ip' })
      .waitFor();
  });

  step('saves both hosts with different addresses', async () => {
    await field('IPv4 address').fill('192.0.2.11/24');
    await page.getByTestId('network-preview').getByText('address1=192.0.2.11/24').waitFor();
    await button('Save').click();
    await page.getByTestId('networks-outcome').filter({ hasText: 'Saved.' }).waitFor();
    const hosts = await saved();
    assert.deepEqual(
      hosts.map(({ mac_interface_map: map }) => map.map(({ mac_address: mac }) => mac)),
      [
        ['52:54:00:00:aa:01', '52:54:00:00:aa:02'],
        ['52:54:00:00:aa:03', '52:54:00:00:aa:04'],
      ],
    );
    assert.match(hosts[1].network_yaml, /ip: 192\.0\.2\.11\n/);
  });

  step('shows saved hosts in the form', async () => {
    await page.reload();
    await host(1).getByText('192.0.2.11/24').waitFor();
    await page.getByRole('button', { name: 'Host 0', exact: true }).click();
    assert.equal(await field('IPv4 gateway').inputValue(), '192.0.2.1');
    assert.equal(await field('VLAN').inputValue(), '100');
  });

  step('reports an error in YAML with its line', async () => {
    await button('Edit as YAML').click();
    const yaml = field('nmstate YAML');
    const text = await yaml.inputValue();
    await yaml.fill(text.replace('  state: up\n', '  state: up\n  mut: 9000\n'));
    await page
      .getByTestId('network-fault')
      .filter({ hasText: 'interfaces[0].mut (line 5) is not a field of nmstate: use mtu instead.' })
      .waitFor();
    await yaml.fill(`${text}hostname:\n  config: pier-0.site.test\n`);
    await page.getByTestId('networks-form').filter({ hasText: 'OpenShift 4.18 and the full image' }).waitFor();
    await page.getByTestId('networks-form').filter({ hasText: 'host 0: hostname (line' }).waitFor();
    await page.getByTestId('network-preview').getByText('capture.iface0.interfaces.0.name').first().waitFor();
  });

  step('removes all hosts', async () => {
    await button('Remove Host 1').click();
    await button('Remove Host 0').click();
    await button('Save').click();
    await page.getByTestId('networks-outcome').filter({ hasText: 'Saved.' }).waitFor();
    assert.equal((await site.get(`/v2/infra-envs/${infraEnv}`)).static_network_config ?? '', '');
  });

  it('no requests to other origins', () => {
    assert.deepEqual(browser.foreign, []);
    assert.deepEqual(browser.errors, []);
  });
});
