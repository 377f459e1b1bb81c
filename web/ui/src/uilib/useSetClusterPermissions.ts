import type { Cluster } from '@openshift-assisted/types/assisted-installer-service';
import { useDispatch } from 'react-redux';
import { updateClusterPermissions } from 'ui-lib/ocm/store/slices/current-cluster/slice';
import { useMay } from '../access/AccessProvider';

/**
 * Replaces the library's hook, which asks the roles of Red Hat's console: viewers see the wizard's
 * forms, but can't change them.
 */
const useSetClusterPermissions = () => {
  const dispatch = useDispatch();
  const mayEdit = useMay('operator');
  return (cluster?: Cluster) => {
    if (cluster) {
      dispatch(updateClusterPermissions({ isViewerMode: !mayEdit }));
    }
  };
};

export default useSetClusterPermissions;
