import { Alert } from '@patternfly/react-core';
import { useField } from 'formik';
import type { ComponentProps } from 'react';
import LibraryUploadSSH from 'ui-lib/common/components/clusterConfiguration/UploadSSH';

/** The SSH key of a discovery image, with a warning if there is none. */
const UploadSSH = (props: ComponentProps<typeof LibraryUploadSSH>) => {
  const [{ value }] = useField<string | undefined>('sshPublicKey');
  return (
    <>
      <LibraryUploadSSH {...props} />
      {!value?.trim() && (
        <Alert
          isInline
          variant="warning"
          title="This image has no SSH key: nobody can log in to a host that fails."
          data-testid="no-ssh-key"
        />
      )}
    </>
  );
};

export default UploadSSH;
