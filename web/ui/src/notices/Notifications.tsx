import { Alert, Button, Content, Label } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Copyable } from '../image/Copyable';
import { useRefetchOn } from '../live/useRefetchOn';
import { Setting } from '../settings/Setting';
import { ActionButton } from '../shell/ActionButton';
import { Confirm } from '../shell/Confirm';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { TextField } from '../shell/TextField';
import { useAct } from '../shell/useAct';
import { useAnswer } from '../shell/useAnswer';
import { BrowserSwitch } from './BrowserSwitch';
import { addWebhook, readWebhooks, removeWebhook, testWebhook, type Webhook } from './api';

const wait = () => 30_000;

/** The setting of the notifications: the switch of this browser, and the site's webhooks. */
export const Notifications = () => {
  const { answer, error, refetch } = useAnswer(readWebhooks, wait);
  const { act, failure } = useAct(refetch);
  useRefetchOn(['webhooks'], refetch);
  const [isAdding, setAdding] = useState(false);
  const [secret, setSecret] = useState('');
  const [tested, setTested] = useState('');
  const [removed, setRemoved] = useState('');
  const mayChange = useMay('admin');
  const problem = failure === '' ? (error ? sentenceOf(error) : '') : failure;
  const test = async (name: string) => {
    setTested('');
    setTested((await act(() => testWebhook(name))) ? name : '');
  };
  return (
    <Setting
      id="notifications"
      title="Notifications"
      about="The appliance tells you when a cluster or host was installed or has failed, and when a person is needed."
    >
      <BrowserSwitch />
      <Content component="h3">Webhooks</Content>
      <Content component="p">
        A webhook is the address of a program, such as a chat system, that takes messages.
      </Content>
      {problem !== '' && <Alert isInline className="landfall-alert" variant="danger" title={problem} />}
      {tested !== '' && (
        <Alert
          isInline
          isLiveRegion
          className="landfall-alert"
          variant="success"
          title={`The webhook ${tested} took the test notification.`}
        />
      )}
      {secret !== '' && (
        <Alert
          isInline
          className="landfall-alert"
          variant="info"
          title="The secret for the receiver is shown only now."
          data-testid="webhook-secret"
        >
          <Copyable label="Secret of the webhook">{secret}</Copyable>
        </Alert>
      )}
      {answer && answer.length > 0 && (
        <WebhookTable webhooks={answer} mayChange={mayChange} onTest={test} onRemove={setRemoved} />
      )}
      {answer?.length === 0 && <Content component="p">No webhook yet.</Content>}
      {mayChange && (
        <Button
          variant="secondary"
          className="landfall-row"
          onClick={() => {
            setAdding(true);
          }}
        >
          Add a webhook
        </Button>
      )}
      {isAdding && (
        <AddDialog
          onAdded={(created) => {
            setSecret(created);
            refetch();
          }}
          onClose={() => {
            setAdding(false);
          }}
        />
      )}
      {removed !== '' && (
        <Confirm
          title={`Remove the webhook ${removed}?`}
          action="Remove"
          onConfirm={() => void act(() => removeWebhook(removed))}
          onClose={() => {
            setRemoved('');
          }}
        >
          Notifications that it has not received are dropped.
        </Confirm>
      )}
    </Setting>
  );
};

type TableProps = {
  webhooks: Webhook[];
  mayChange: boolean;
  onTest: (name: string) => Promise<void>;
  onRemove: (name: string) => void;
};

const WebhookTable = ({ webhooks, mayChange, onTest, onRemove }: TableProps) => (
  <Table aria-label="Webhooks" variant="compact">
    <Thead>
      <Tr>
        <Th width={15}>Name</Th>
        <Th>Address</Th>
        <Th>State</Th>
        {mayChange && <Th screenReaderText="Actions" />}
      </Tr>
    </Thead>
    <Tbody>
      {webhooks.map((webhook) => (
        <Tr key={webhook.name} data-testid="webhook">
          <Td dataLabel="Name">{webhook.name}</Td>
          <Td dataLabel="Address" modifier="breakWord">
            {webhook.url}
          </Td>
          <Td dataLabel="State" modifier="breakWord">
            <WebhookState webhook={webhook} />
          </Td>
          {mayChange && (
            <Td isActionCell>
              <ActionButton
                variant="link"
                isInline
                aria-label={`Test the webhook ${webhook.name}`}
                onAct={() => onTest(webhook.name)}
              >
                Test
              </ActionButton>{' '}
              <Button
                variant="link"
                isInline
                isDanger
                aria-label={`Remove the webhook ${webhook.name}`}
                onClick={() => {
                  onRemove(webhook.name);
                }}
              >
                Remove
              </Button>
            </Td>
          )}
        </Tr>
      ))}
    </Tbody>
  </Table>
);

const WebhookState = ({ webhook: { problem, pending, delivered_at: delivered } }: { webhook: Webhook }) => {
  const waiting = pending === 0 ? '' : `${String(pending)} waiting`;
  if (problem) {
    return (
      <>
        <Label isCompact status="danger">
          Failed
        </Label>{' '}
        {waiting}
        <Content component="small">{problem}</Content>
      </>
    );
  }
  return (
    <>
      {delivered ? `Last delivery: ${new Date(delivered).toLocaleString()}` : 'No delivery yet'}
      {waiting && `, ${waiting}`}
    </>
  );
};

const AddDialog = ({ onAdded, onClose }: { onAdded: (secret: string) => void; onClose: () => void }) => {
  const [name, setName] = useState('');
  const [url, setURL] = useState('');
  const [secret, setSecret] = useState('');
  return (
    <FormDialog
      title="Add a webhook"
      action="Add"
      isComplete={name.trim() !== '' && url.trim() !== ''}
      onSend={async () => {
        onAdded(await addWebhook({ name: name.trim(), url: url.trim(), secret: secret.trim() }));
      }}
      onClose={onClose}
    >
      <TextField
        id="webhook-name"
        label="Name"
        isRequired
        help="Lower-case letters, digits and hyphens, such as chat."
        value={name}
        onChange={setName}
      />
      <TextField
        id="webhook-url"
        label="Address"
        isRequired
        help="The whole URL, such as https://chat.example.com/hooks/1. It is stored encrypted."
        value={url}
        onChange={setURL}
      />
      <TextField
        id="webhook-secret"
        label="Secret"
        type="password"
        help="The key of the signature. Without one, the appliance creates a secret and shows it once."
        value={secret}
        onChange={setSecret}
      />
    </FormDialog>
  );
};
