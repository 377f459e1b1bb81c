import type { Status } from './appliance';
import { asSentence } from './quantities';

type Releases = Pick<Status, 'releases'>;

/** Why there is no version to install. */
export const whyNoVersion = ({ releases }: Releases): string => {
  const [release] = releases;
  if (!release) {
    return 'This appliance has no release to install. Add one in the settings.';
  }
  const reason = asSentence(release.message ?? '') || 'It is being read.';
  return `OpenShift ${release.openshift_version} (${release.cpu_architecture}) cannot be installed yet. ${reason}`;
};

type Version = { default?: boolean };

/**
 * The versions with a release that can be installed: hosts of the others could not be discovered,
 * because there is no live ISO. If the default is not among them, the newest is the default.
 */
export const installable = <T extends Version>(versions: Record<string, T>, { releases }: Releases) => {
  const isUsable = (version: string): boolean => {
    const own = releases.filter(({ openshift_version: one }) => one === version || one.startsWith(`${version}.`));
    return own.length === 0 || own.some(({ state }) => state !== 'failed');
  };
  const usable = Object.entries(versions).filter(([version]) => isUsable(version));
  const newest = usable
    .map(([version]) => version)
    .sort((a, b) => a.localeCompare(b, undefined, { numeric: true }))
    .at(-1);
  const hasDefault = usable.some(([, version]) => version.default);
  return Object.fromEntries(
    usable.map(([name, version]) => [name, hasDefault ? version : { ...version, default: name === newest }]),
  );
};
