import { useRows, type Source } from '../live/useRows';
import { listHosts, type HostRow } from './api';
import { keyOf } from './table';

const source: Source<HostRow> = {
  list: listHosts,
  keyOf,
  concerned: ({ kind, id }, rows) => {
    switch (kind) {
      case 'hosts':
        return id;
      case 'bmcs':
        return rows.find(({ bmc }) => bmc?.id === id)?.id;
      default:
        return undefined;
    }
  },
};

/** The hosts of the site. */
export const useHosts = () => useRows(source);
