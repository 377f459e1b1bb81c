import { Checkbox, Content } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { remove, type Server } from './api';

/** Removes a server: ejects its media and optionally powers it off. */
export const RemoveDialog = ({ server, onClose }: { server: Server; onClose: () => void }) => {
  const [off, setOff] = useState(false);
  return (
    <FormDialog
      title={`Remove ${server.name}`}
      action="Remove"
      isDanger
      onSend={() => remove(server.id, off)}
      onClose={onClose}
    >
      <Content component="p">The appliance ejects the image and deletes the server with its credentials.</Content>
      <Checkbox
        id="bmc-power-off"
        label="Power off the server"
        isChecked={off}
        onChange={(_event, checked) => {
          setOff(checked);
        }}
      />
    </FormDialog>
  );
};
