import type { Described } from './hosts';

const keyOf = (infraEnvId: string) => `landfall-networks-${infraEnvId}`;

/**
 * The unsaved networks of an infra-env. They stay in the browser's tab until they are saved or
 * discarded, also when a person opens another page or loads this one again.
 */
export const readDraft = (infraEnvId: string, storage: Storage = sessionStorage): Described[] | undefined => {
  const stored = storage.getItem(keyOf(infraEnvId));
  if (stored === null) {
    return undefined;
  }
  try {
    return JSON.parse(stored) as Described[];
  } catch {
    return undefined;
  }
};

/** Keeps unsaved networks; undefined forgets them. */
export const keepDraft = (
  infraEnvId: string,
  draft: Described[] | undefined,
  storage: Storage = sessionStorage,
): void => {
  if (draft) {
    storage.setItem(keyOf(infraEnvId), JSON.stringify(draft));
  } else {
    storage.removeItem(keyOf(infraEnvId));
  }
};
