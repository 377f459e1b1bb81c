import { Button } from '@patternfly/react-core';
import { useState } from 'react';
import { useNavigate } from 'react-router-dom-v5-compat';
import { DeleteDialog } from './DeleteDialog';

/** Deletes the cluster of the page, after a question, and goes to the list of clusters. */
export const DeleteButton = ({ cluster }: { cluster: { id: string; name: string; status: string } }) => {
  const navigate = useNavigate();
  const [isAsked, setAsked] = useState(false);
  return (
    <>
      <Button
        variant="secondary"
        isDanger
        onClick={() => {
          setAsked(true);
        }}
      >
        Delete cluster
      </Button>
      {isAsked && (
        <DeleteDialog
          cluster={cluster}
          onDone={() => {
            navigate('/assisted-installer/clusters');
          }}
          onClose={() => {
            setAsked(false);
          }}
        />
      )}
    </>
  );
};
