import { describe, expect, it } from 'vitest';
import type { Notice } from '../src/notices/api';
import { newer, obstacle, titleOf } from '../src/notices/browser';

const notice = (id: string, more: Partial<Notice> = {}): Notice => ({
  id,
  kind: 'installed',
  message: 'Cluster east is installed.',
  url: 'https://landfall.test/',
  ...more,
});

const page = (isSecureContext: boolean, permission?: string) =>
  ({ isSecureContext, ...(permission && { Notification: { permission } }) }) as unknown as Window & typeof globalThis;

describe('notifications of the browser', () => {
  it('are those after the last one, the oldest first', () => {
    const list = ['3', '2', '1'].map((id) => notice(id));
    expect(newer(list, '1').map(({ id }) => id)).toEqual(['2', '3']);
    expect(newer(list, '3')).toEqual([]);
  });

  it('name the host, or else the cluster', () => {
    const cluster = { id: 'c', name: 'east' };
    expect(titleOf(notice('1', { cluster }))).toBe('Installed: east');
    expect(titleOf(notice('1', { kind: 'attention', cluster, host: { id: 'h', name: 'node-1' } }))).toBe(
      'Needs a person: node-1',
    );
    expect(titleOf(notice('1', { kind: 'failed' }))).toBe('Failed');
  });

  it('say why a browser cannot show them', () => {
    expect(obstacle(page(false, 'granted'))).toMatch(/HTTPS/);
    expect(obstacle(page(true))).toMatch(/shows no notifications/);
    expect(obstacle(page(true, 'denied'))).toMatch(/blocks/);
    expect(obstacle(page(true, 'default'))).toBe('');
  });
});
