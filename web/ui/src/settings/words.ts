import type { Release } from './api';

/** Who offers a release. */
export const offeredBy: Record<Release['source'], string> = {
  configuration: 'Configuration file',
  administrator: 'Administrator',
  medium: 'Medium of the registry',
};

/** Reports whether the page can remove a release: only those that an administrator added. */
export const isRemovable = ({ source }: Release): boolean => source === 'administrator';
