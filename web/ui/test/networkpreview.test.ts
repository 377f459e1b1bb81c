// @vitest-environment jsdom
import { createElement } from 'react';
import { expect, it } from 'vitest';
import { HostPreviewPanel } from '../src/networks/HostPreviewPanel';
import { show } from './screen';

it('shows settings that are probably mistakes', () => {
  const warnings = ['routes.config[0].next-hop-address (line 4) is 192.0.3.1, which is in no network of eth0'];
  const close = show(createElement(HostPreviewPanel, { preview: { warnings, addresses: [], files: [] } }));
  expect(document.body.textContent).toContain('192.0.3.1, which is in no network of eth0.');
  close();
});
