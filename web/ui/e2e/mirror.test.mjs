// The mirror as a person has it: rules dropped onto the page, an image explained, a release asked for.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { openBrowser } from './browser.mjs';
import { startSite } from './site.mjs';

const minute = 60_000;
const rules = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: idms-team-0}
spec:
  imageDigestMirrors:
  - source: quay.io/team
    mirrors: [mirror.example.com:5000/team]
`;

describe('a person with a mirror', { timeout: 4 * minute }, () => {
  let site;
  let browser;
  let page;

  before(async () => {
    site = await startSite({ hosts: 1 });
    browser = await openBrowser(site.url, 'mirror');
    ({ page } = browser);
    await page.goto(`${site.url}/mirror`);
  });
  after(async () => {
    await browser?.close();
    await site?.end();
  });

  it('sees the rules and whether the mirror holds the release', async () => {
    await page.getByTestId('rule').first().waitFor();
    await page.getByRole('button', { name: 'Ask the mirror', exact: true }).click();
    await page.getByTestId('proof').filter({ hasText: 'The mirror holds all' }).waitFor({ timeout: minute });
    await browser.picture('the-mirror-holds-the-release');
  });

  it('drops rules onto the page and takes them back', async () => {
    const data = await page.evaluateHandle((text) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], 'idms-team.yaml'));
      return transfer;
    }, rules);
    await page.getByTestId('mirror').dispatchEvent('drop', { dataTransfer: data });
    await page.getByTestId('rule').filter({ hasText: 'quay.io/team' }).waitFor();
    await page.getByRole('textbox', { name: 'Image to explain' }).fill('quay.io/team/app:1');
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    await page.getByText('the image is named by a tag').waitFor();
    await browser.picture('rules-dropped-onto-the-page');
    await page.getByRole('button', { name: 'Remove', exact: true }).click();
    await page.getByTestId('rule').filter({ hasText: 'quay.io/team' }).waitFor({ state: 'detached' });
  });

  it('is told what is wrong with what was dropped', async () => {
    const data = await page.evaluateHandle(() => {
      const transfer = new DataTransfer();
      transfer.items.add(new File(['kind: Pod'], 'pod.yaml'));
      return transfer;
    });
    await page.getByTestId('mirror').dispatchEvent('drop', { dataTransfer: data });
    const alert = page.getByText('holds nothing of a mirror');
    await alert.waitFor();
    assert.match(await alert.innerText(), /pod\.yaml/i);
  });
});
