import { Alert, Button, Card, CardBody, CardTitle, Content, Flex, Stack, StackItem } from '@patternfly/react-core';
import { useCallback, useState } from 'react';
import { useMay } from '../access/AccessProvider';
import { Confirm } from '../shell/Confirm';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { TextField } from '../shell/TextField';
import { useAct } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import {
  decide,
  decisionsAbout,
  readConnection,
  release,
  type Connection,
  type Decision,
  type Finding,
} from './api';

const often = () => 5_000;

const labels: Record<Decision, string> = {
  adopt: 'Adopt',
  ignore: 'Ignore',
  delete: 'Delete there',
};

/** A management cluster to which nothing is sent until a person has decided. */
export const HeldCluster = ({ consumer }: { consumer: string }) => {
  const load = useCallback((signal: AbortSignal) => readConnection(consumer, signal), [consumer]);
  const { answer, error, refetch } = useAnswer<Connection>(load, often);
  const { act, failure } = useAct(refetch);
  const { isRunning, run } = useAction();
  const [removed, setRemoved] = useState<Finding>();
  const [releasing, setReleasing] = useState(false);
  const mayDecide = useMay('admin');
  const open = (answer?.findings ?? []).filter(({ decision }) => !decision);
  return (
    <Card data-testid={`held-${consumer}`}>
      <CardTitle component="h2">{`Nothing is sent to ${consumer}`}</CardTitle>
      <CardBody>
        {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
        {failure !== '' && <Alert isInline variant="danger" title={failure} />}
        {answer?.hold && <Content component="p">{answer.hold.reason}</Content>}
        <Stack hasGutter>
          {open.map((finding) => (
            <StackItem key={finding.id} data-testid="finding">
              <Content component="h3">{finding.name ?? finding.id}</Content>
              <Content component="p">{finding.sentence}</Content>
              {finding.objects && (
                <Content component="small">
                  {`On the management cluster: ${finding.objects.map(nameOf).join(', ')}.`}
                </Content>
              )}
              {mayDecide && (
                <Flex gap={{ default: 'gapSm' }}>
                  {decisionsAbout(finding).map((decision) => (
                    <Button
                      key={decision}
                      size="sm"
                      variant={decision === 'delete' ? 'danger' : 'secondary'}
                      isAriaDisabled={isRunning}
                      onClick={() => {
                        if (decision === 'delete') {
                          setRemoved(finding);
                        } else {
                          void run(() => act(() => decide(consumer, finding, decision)));
                        }
                      }}
                    >
                      {labels[decision]}
                    </Button>
                  ))}
                </Flex>
              )}
            </StackItem>
          ))}
        </Stack>
        {answer && open.length === 0 && mayDecide && (
          <Button
            variant="secondary"
            onClick={() => {
              setReleasing(true);
            }}
          >
            Send again
          </Button>
        )}
        {removed && (
          <DeleteThere
            finding={removed}
            onDelete={() => decide(consumer, removed, 'delete').finally(refetch)}
            onClose={() => {
              setRemoved(undefined);
            }}
          />
        )}
        {releasing && (
          <Confirm
            title={`Send to ${consumer} again?`}
            action="Send again"
            onConfirm={() => void act(() => release(consumer))}
            onClose={() => {
              setReleasing(false);
            }}
          >
            The state of this appliance will replace that of the management cluster.
          </Confirm>
        )}
      </CardBody>
    </Card>
  );
};

const nameOf = ({ kind, namespace, name }: NonNullable<Finding['objects']>[number]): string =>
  namespace ? `${kind} ${namespace}/${name}` : `${kind} ${name}`;

type DeleteProps = { finding: Finding; onDelete: () => Promise<unknown>; onClose: () => void };

/** The dialog that deletes a bundle on a management cluster, after its name was typed. */
const DeleteThere = ({ finding, onDelete, onClose }: DeleteProps) => {
  const [typed, setTyped] = useState('');
  return (
    <FormDialog
      title="Delete the bundle on the management cluster?"
      action="Delete there"
      isDanger
      isComplete={typed.trim() === finding.name}
      onSend={onDelete}
      onClose={onClose}
    >
      <Content component="p">
        {`Its objects are removed there, with all their data. Type the name of the bundle: ${finding.name ?? ''}`}
      </Content>
      <TextField id="held-name" label="Name of the bundle" isRequired value={typed} onChange={setTyped} />
    </FormDialog>
  );
};
