import {
  Alert,
  Button,
  Content,
  Flex,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
} from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { sentenceOf } from '../shell/request';
import { TextField } from '../shell/TextField';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { approve, bind, boot, listClusters, remove, rename, setRole, unbind, type HostRow, type Role } from './api';
import {
  acceptsHosts,
  canBind,
  canUnbind,
  count,
  forEachHost,
  isBeforeInstallation,
  keyOf,
  roleName,
  summaryOf,
  waitsForApproval,
  type Result,
} from './table';

type Kind = 'approve' | 'role' | 'bind' | 'unbind' | 'rename' | 'boot' | 'remove';

type Outcome = { summary: string; results: Result[] };

/** An open dialog: `refused` is its last attempt, if some hosts could not take part. */
type Dialog = { kind: Kind; hosts: HostRow[]; refused?: Outcome };

type Props = {
  hosts: HostRow[];
  /** The name of the group of buttons. */
  label: string;
  /** Called after an action, with the hosts that were removed. */
  onDone: (removed: HostRow[]) => void;
};

/** The actions on one or more hosts. */
export const HostActions = ({ hosts, label, onDone }: Props) => {
  const [dialog, setDialog] = useState<Dialog>();
  const [outcome, setOutcome] = useState<Outcome & { selected: Set<string> }>();
  // An outcome is about the hosts that were selected then.
  if (outcome && hosts.some((host) => !outcome.selected.has(keyOf(host)))) {
    setOutcome(undefined);
  }
  const { isRunning, run: runOnce } = useAction();
  const show = (done: string, results: Result[]) => {
    setOutcome({ summary: summaryOf(done, results), results, selected: new Set(hosts.map(keyOf)) });
  };
  const run = (done: string, chosen: HostRow[], act: (host: HostRow) => Promise<unknown>, isRemoval = false) => {
    setDialog(undefined);
    return runOnce(async () => {
      const results = await forEachHost(chosen, act, sentenceOf);
      show(done, results);
      onDone(isRemoval ? results.filter(({ error }) => error === undefined).map(({ host }) => host) : []);
    });
  };
  /** Runs the action of an open dialog, which closes when all hosts have taken part. */
  const runInDialog = (asked: Dialog, done: string, act: (host: HostRow) => Promise<unknown>) =>
    runOnce(async () => {
      const results = await forEachHost(asked.hosts, act, sentenceOf);
      show(done, results);
      const left = failedOf(results).map(({ host }) => host);
      const refused = { summary: summaryOf(done, results), results };
      setDialog((last) => {
        if (last !== asked) {
          return last; // a person has closed it meanwhile
        }
        return left.length === 0 ? undefined : { ...asked, hosts: left, refused };
      });
      onDone([]);
    });
  const button = (kind: Kind, name: string, fits: (host: HostRow) => boolean, isDanger = false) => {
    const fitting = hosts.filter(fits);
    return (
      <Button
        size="sm"
        variant={isDanger ? 'danger' : 'secondary'}
        isAriaDisabled={isRunning}
        isDisabled={fitting.length === 0 || (kind === 'rename' && hosts.length !== 1)}
        onClick={() => {
          setDialog({ kind, hosts: fitting });
        }}
      >
        {name}
      </Button>
    );
  };
  const close = () => {
    setDialog(undefined);
  };
  return (
    <>
      <Flex gap={{ default: 'gapSm' }} role="group" aria-label={label} className="landfall-host-actions">
        {hosts.some(waitsForApproval) && button('approve', 'Approve', waitsForApproval)}
        {button('role', 'Set role', isBeforeInstallation)}
        {button('bind', 'Bind to a cluster', canBind)}
        {button('unbind', 'Unbind', canUnbind)}
        {button('rename', 'Rename', isBeforeInstallation)}
        {button('boot', 'Boot by BMC', ({ bmc }) => bmc !== undefined)}
        {button('remove', 'Remove', () => true, true)}
      </Flex>
      <div role="status" data-testid="host-outcome">
        {outcome && !dialog?.refused && <OutcomeAlert {...outcome} />}
      </div>
      {dialog?.kind === 'approve' && (
        <ActionDialog
          title={`Approve ${count(dialog.hosts.length)}`}
          action="Approve"
          hosts={dialog.hosts}
          onClose={close}
          onSend={() => void run('Approved', dialog.hosts, approve)}
        >
          <Content component="p">
            The manifests of the cluster install these hosts. The installation overwrites their disks.
          </Content>
        </ActionDialog>
      )}
      {dialog?.kind === 'role' && (
        <RoleDialog
          {...dialog}
          isRunning={isRunning}
          onClose={close}
          onSend={(role) => void runInDialog(dialog, 'Role set on', (host) => setRole(host, role))}
        />
      )}
      {dialog?.kind === 'bind' && (
        <BindDialog
          {...dialog}
          isRunning={isRunning}
          onClose={close}
          onSend={(cluster) => void runInDialog(dialog, 'Bound', (host) => bind(host, cluster))}
        />
      )}
      {dialog?.kind === 'unbind' && (
        <ActionDialog
          title={`Unbind ${count(dialog.hosts.length)}`}
          action="Unbind"
          hosts={dialog.hosts}
          onClose={close}
          onSend={() => void run('Unbound', dialog.hosts, unbind)}
        >
          <Content component="p">The hosts leave their clusters and stay on the list.</Content>
        </ActionDialog>
      )}
      {dialog?.kind === 'boot' && (
        <ActionDialog
          title={`Boot ${count(dialog.hosts.length)} by BMC`}
          action="Boot"
          hosts={dialog.hosts}
          onClose={close}
          onSend={() => void run('Boot requested for', dialog.hosts, boot)}
        >
          <Content component="p">
            The servers restart immediately and boot the image of their infra-env. The appliance refuses to boot a host
            that is being installed or is installed.
          </Content>
        </ActionDialog>
      )}
      {dialog?.kind === 'remove' && (
        <ActionDialog
          title={`Remove ${count(dialog.hosts.length)}`}
          action="Remove"
          isDanger
          hosts={dialog.hosts}
          onClose={close}
          onSend={() => void run('Removed', dialog.hosts, remove, true)}
        >
          <Content component="p">
            The appliance forgets these hosts with their reports and settings. The machines are not changed. A machine
            that still runs the discovery image must be booted again to come back.
          </Content>
        </ActionDialog>
      )}
      {dialog?.kind === 'rename' && dialog.hosts[0] && (
        <RenameDialog
          host={dialog.hosts[0]}
          onClose={close}
          onSent={(host) => {
            show('Renamed', [{ host }]);
            onDone([]);
          }}
        />
      )}
    </>
  );
};

const failedOf = (results: Result[]) => results.filter(({ error }) => error !== undefined);

const OutcomeAlert = ({ summary, results }: Outcome) => {
  const failed = failedOf(results);
  return (
    <Alert
      isInline
      variant={failed.length > 0 ? 'danger' : 'success'}
      title={summary}
      className="landfall-outcome"
    >
      {failed.length > 0 && (
        <ul>
          {failed.map(({ host, error }) => (
            <li key={keyOf(host)}>
              <strong>{host.name}:</strong> {error}
            </li>
          ))}
        </ul>
      )}
    </Alert>
  );
};

type DialogProps = { hosts: HostRow[]; refused?: Outcome; isRunning?: boolean; onClose: () => void };

/** A dialog that names the hosts of an action. */
const ActionDialog = ({
  title,
  action,
  hosts,
  refused,
  isRunning = false,
  isDanger = false,
  isReady = true,
  onSend,
  onClose,
  children,
}: DialogProps & {
  title: string;
  action: string;
  isDanger?: boolean;
  isReady?: boolean;
  onSend: () => void;
  children: ReactNode;
}) => (
  <Modal isOpen variant="small" onClose={onClose} aria-label={title}>
    <ModalHeader title={title} {...(isDanger ? { titleIconVariant: 'warning' as const } : {})} />
    <ModalBody tabIndex={0} aria-label="Settings and hosts">
      <div role="alert">{refused && <OutcomeAlert {...refused} />}</div>
      {children}
      <Content component="p">Hosts:</Content>
      <ul className="landfall-host-names" data-testid="host-names">
        {hosts.map((host) => (
          <li key={keyOf(host)}>{host.name}</li>
        ))}
      </ul>
    </ModalBody>
    <ModalFooter>
      <Button
        variant={isDanger ? 'danger' : 'primary'}
        isDisabled={!isReady}
        isAriaDisabled={isRunning}
        isLoading={isRunning}
        onClick={onSend}
      >
        {action}
      </Button>
      <Button variant="link" onClick={onClose}>
        Cancel
      </Button>
    </ModalFooter>
  </Modal>
);

const roles: Role[] = ['auto-assign', 'master', 'worker', 'arbiter'];

const RoleDialog = ({ onSend, ...shown }: DialogProps & { onSend: (role: Role) => void }) => {
  const [role, setTo] = useState<Role>('auto-assign');
  return (
    <ActionDialog
      title={`Set the role of ${count(shown.hosts.length)}`}
      action="Set role"
      {...shown}
      onSend={() => {
        onSend(role);
      }}
    >
      <Form>
        <FormGroup label="Role" fieldId="host-role">
          <FormSelect
            id="host-role"
            value={role}
            onChange={(_event, value) => {
              setTo(value as Role);
            }}
          >
            {roles.map((value) => (
              <FormSelectOption key={value} value={value} label={roleName(value)} />
            ))}
          </FormSelect>
        </FormGroup>
      </Form>
    </ActionDialog>
  );
};

const once = () => undefined;

const BindDialog = ({ onSend, ...shown }: DialogProps & { onSend: (cluster: string) => void }) => {
  const { answer, error } = useAnswer(listClusters, once);
  const [cluster, setCluster] = useState('');
  const clusters = answer?.filter(acceptsHosts);
  return (
    <ActionDialog
      title={`Bind ${count(shown.hosts.length)} to a cluster`}
      action="Bind"
      {...shown}
      isReady={cluster !== ''}
      onSend={() => {
        onSend(cluster);
      }}
    >
      {error && <Alert isInline variant="danger" title={sentenceOf(error)} />}
      {clusters?.length === 0 && (
        <Alert
          isInline
          variant="info"
          title="No cluster accepts hosts now. Create one, or click on “Add hosts” on the page of an installed cluster."
        />
      )}
      <Form>
        <FormGroup label="Cluster" fieldId="host-cluster">
          <FormSelect
            id="host-cluster"
            value={cluster}
            onChange={(_event, value) => {
              setCluster(value);
            }}
          >
            <FormSelectOption value="" label="Choose a cluster" />
            {clusters?.map(({ id, name }) => <FormSelectOption key={id} value={id} label={name} />)}
          </FormSelect>
        </FormGroup>
      </Form>
    </ActionDialog>
  );
};

type RenameProps = { host: HostRow; onClose: () => void; onSent: (host: HostRow) => void };

const RenameDialog = ({ host, onClose, onSent }: RenameProps) => {
  const [name, setName] = useState(host.name);
  const wanted = name.trim();
  return (
    <FormDialog
      title={`Rename ${host.name}`}
      action="Rename"
      isComplete={wanted !== '' && wanted !== host.name}
      onSend={() => rename(host, wanted)}
      onSent={() => {
        onSent(host);
      }}
      onClose={onClose}
    >
      <TextField id="host-name" label="New name" value={name} onChange={setName} />
    </FormDialog>
  );
};
