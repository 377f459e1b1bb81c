import { Alert } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { addMedia } from './api';

/** Adds a path with media. The dialog stays open while the appliance reads what lies there. */
export const AddDialog = ({ onClose }: { onClose: () => void }) => {
  const [path, setPath] = useState('');
  return (
    <FormDialog
      title="Add media"
      action="Add"
      isComplete={path.trim() !== ''}
      onSend={() => addMedia(path.trim())}
      onClose={onClose}
    >
      <TextField
        id="registry-path"
        label="Path on the appliance's machine"
        help="An archive, a folder, or a stick with several, such as /media/stick."
        isRequired
        value={path}
        onChange={setPath}
      />
      <Alert
        isInline
        variant="info"
        title="The releases that lie there now may be used to install clusters. Add only media that you trust."
      />
    </FormDialog>
  );
};
