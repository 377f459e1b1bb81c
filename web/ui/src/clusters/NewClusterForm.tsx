import {
  ActionGroup,
  Alert,
  Button,
  Checkbox,
  Form,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  Radio,
  TextArea,
  TextInput,
  Title,
} from '@patternfly/react-core';
import { useCallback, useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react';
import { Link, useNavigate } from 'react-router-dom-v5-compat';
import { LinkButton } from '../shell/LinkButton';
import { sentenceOf } from '../shell/request';
import { useAnswer } from '../shell/useAnswer';
import type { ClusterRow } from './list';
import {
  canHave,
  canUse,
  controlPlanes,
  create,
  groupsOf,
  platforms,
  possible,
  problemsOf,
  readSupport,
  type NewCluster,
  type Platform,
  type Version,
} from './newCluster';

type Props = { versions: Record<string, Version>; clusters: ClusterRow[]; hasPullSecret: boolean };

const steps = ['Cluster details', 'Operators', 'Host discovery', 'Storage', 'Networking', 'Review and install'];
const groups = { masters: 'Control-plane nodes', workers: 'Workers', arbiters: 'Arbiter' };
const once = () => undefined;

const architecturesOf = (version: Version | undefined) => version?.cpu_architectures ?? ['x86_64'];

const initial = (versions: Record<string, Version>, hasPullSecret: boolean): NewCluster => {
  const [first = '', offered] =
    Object.entries(versions).find(([, version]) => version.default) ?? Object.entries(versions)[0] ?? [];
  return {
    ...{ name: '', domain: '', version: first, architecture: architecturesOf(offered)[0] ?? 'x86_64' },
    ...{ controlPlanes: 3, platform: 'none', pullSecret: '', usesSitePullSecret: hasPullSecret },
    ...{ hasManifests: false, hasStaticNetworks: false, encrypted: [], encryption: 'tpmv2', tang: '' },
  };
};

/** The form of a new cluster. */
export const NewClusterForm = ({ versions, clusters, hasPullSecret }: Props) => {
  const [entered, setEntered] = useState(() => initial(versions, hasPullSecret));
  const [left, setLeft] = useState<string[]>([]);
  const [isSending, setSending] = useState(false);
  const [failure, setFailure] = useState('');
  const navigate = useNavigate();
  const form = useRef<HTMLFormElement>(null);
  const nameField = useRef<HTMLInputElement>(null);
  const hasLeft = useRef(false);
  const { version, architecture } = entered;
  const load = useCallback(
    (signal: AbortSignal) => readSupport(version, architecture, signal),
    [version, architecture],
  );
  const { answer: support } = useAnswer(load, once);
  const cluster = possible(entered, support);
  const { controlPlanes: count, platform, encrypted } = cluster;
  const problems: Record<string, string> = problemsOf(cluster, clusters);
  const isExternal = platform === 'external';

  useEffect(() => {
    nameField.current?.focus();
    hasLeft.current = false;
    return () => {
      hasLeft.current = true;
    };
  }, []);

  const set = (change: Partial<NewCluster>) => {
    setEntered({ ...entered, ...change });
  };
  const leave = (field: string) => () => {
    setLeft([...left, field]);
  };
  const problemOf = (field: string) => (left.includes(field) ? (problems[field] ?? '') : '');
  const send = async () => {
    setSending(true);
    setFailure('');
    try {
      // The next steps are loaded meanwhile. Showing them loads them again and reports an error.
      const nextSteps = import('../Installer').catch(() => undefined);
      const id = await create(cluster, support);
      await nextSteps;
      if (!hasLeft.current) {
        navigate(`/assisted-installer/clusters/${id}`, { state: 'new' });
      }
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
      setSending(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wrong = Object.keys(problems);
    setLeft(wrong);
    if (wrong.length > 0) {
      form.current?.querySelector<HTMLElement>(`#new-${wrong[0] ?? ''}`)?.focus();
    } else if (!isSending) {
      void send();
    }
  };
  const text = (field: 'name' | 'domain', name: string, hint: ReactNode) => (
    <FormGroup label={name} fieldId={`new-${field}`} isRequired>
      <TextInput
        ref={field === 'name' ? nameField : undefined}
        id={`new-${field}`}
        autoComplete="off"
        isRequired
        value={cluster[field]}
        validated={problemOf(field) ? 'error' : 'default'}
        aria-describedby={`new-${field}-hint`}
        onBlur={cluster[field] === '' ? undefined : leave(field)}
        onChange={(_event, value) => {
          set({ [field]: value.trim() });
        }}
      />
      <Hint id={`new-${field}-hint`} problem={problemOf(field)}>
        {hint}
      </Hint>
    </FormGroup>
  );

  return (
    <div className="pf-v6-c-wizard cluster-wizard landfall-new-cluster">
      <ol aria-label="Steps">
        {steps.map((step, place) => (
          <li key={step} aria-current={place === 0 ? 'step' : undefined}>
            {step}
          </li>
        ))}
      </ol>
      <Form ref={form} onSubmit={submit} noValidate isWidthLimited>
        <Title headingLevel="h2">Cluster details</Title>
        {text('name', 'Cluster name', 'A part of the names of its hosts and services. It cannot be changed later.')}
        {text(
          'domain',
          'Base domain',
          <>
            The cluster&apos;s DNS names end in{' '}
            <strong>
              {cluster.name || 'name'}.{cluster.domain || 'site.example.com'}
            </strong>
            .
          </>,
        )}
        <FormGroup label="OpenShift version" fieldId="new-version" isRequired>
          <FormSelect
            id="new-version"
            value={version}
            onChange={(_event, value) => {
              const offered = architecturesOf(versions[value]);
              set({
                version: value,
                architecture: offered.includes(architecture) ? architecture : (offered[0] ?? architecture),
              });
            }}
          >
            {Object.entries(versions).map(([value, { display_name: name, support_level: level }]) => (
              <FormSelectOption
                key={value}
                value={value}
                label={`OpenShift ${name ?? value}${level && level !== 'production' ? ` (${level})` : ''}`}
              />
            ))}
          </FormSelect>
        </FormGroup>
        <FormGroup label="CPU architecture" fieldId="new-architecture" isRequired>
          <FormSelect
            id="new-architecture"
            value={architecture}
            onChange={(_event, value) => {
              set({ architecture: value });
            }}
          >
            {architecturesOf(versions[version]).map((name) => (
              <FormSelectOption key={name} value={name} label={name} />
            ))}
          </FormSelect>
        </FormGroup>
        <FormGroup label="Pull secret" fieldId="new-pullSecret" isRequired={!hasPullSecret}>
          {hasPullSecret && (
            <>
              <p data-testid="site-pull-secret">
                {cluster.usesSitePullSecret
                  ? "The site's pull secret is used."
                  : "The site's pull secret is not used."}
              </p>
              <Checkbox
                id="own-pull-secret"
                label="Use another pull secret for this cluster"
                isChecked={!cluster.usesSitePullSecret}
                onChange={(_event, isOwn) => {
                  set({ usesSitePullSecret: !isOwn, pullSecret: '' });
                }}
              />
            </>
          )}
          {!cluster.usesSitePullSecret && (
            <>
              <TextArea
                id="new-pullSecret"
                aria-label="Pull secret"
                rows={6}
                value={cluster.pullSecret}
                validated={problemOf('pullSecret') ? 'error' : 'default'}
                aria-describedby="new-pullSecret-hint"
                onBlur={cluster.pullSecret === '' ? undefined : leave('pullSecret')}
                onChange={(_event, value) => {
                  set({ pullSecret: value });
                }}
              />
              <Hint id="new-pullSecret-hint" problem={problemOf('pullSecret')}>
                The credentials for the mirror, as JSON.{' '}
                {!hasPullSecret && (
                  <>
                    Set it for all clusters in the <Link to="/settings#pull-secret">settings</Link>.
                  </>
                )}
              </Hint>
            </>
          )}
        </FormGroup>
        <FormGroup label="Number of control-plane nodes" fieldId="new-count">
          <FormSelect
            id="new-count"
            value={count}
            onChange={(_event, value) => {
              set({ controlPlanes: Number(value) });
            }}
          >
            {controlPlanes.map(({ count: number, label }) => (
              <FormSelectOption key={number} value={number} label={label} isDisabled={!canHave(number, support)} />
            ))}
          </FormSelect>
          {count < 3 && (
            <Hint id="new-count-hint" problem="">
              {count === 1
                ? 'A single node is not highly available.'
                : 'Make a third host the arbiter, or give the credentials of the BMCs of both nodes.'}
            </Hint>
          )}
        </FormGroup>
        <FormGroup label="Integration with a platform" fieldId="new-platform">
          <FormSelect
            id="new-platform"
            value={platform}
            onChange={(_event, value) => {
              const next = value as Platform;
              set({ platform: next, ...(next === 'external' && { hasManifests: true, hasStaticNetworks: false }) });
            }}
          >
            {platforms.map(({ id, label }) => (
              <FormSelectOption key={id} value={id} label={label} isDisabled={!canUse(id, count, support)} />
            ))}
          </FormSelect>
        </FormGroup>
        <Checkbox
          id="new-manifests"
          label="Include custom manifests"
          description="A step of the wizard takes manifests that are applied during the installation."
          isChecked={cluster.hasManifests}
          isDisabled={isExternal}
          onChange={(_event, hasManifests) => {
            set({ hasManifests });
          }}
        />
        <FormGroup label="Networks of the hosts" role="radiogroup" isInline>
          <Radio
            id="new-dhcp"
            name="networks"
            label="DHCP only"
            isChecked={!cluster.hasStaticNetworks}
            isDisabled={isExternal}
            onChange={() => {
              set({ hasStaticNetworks: false });
            }}
          />
          <Radio
            id="new-static"
            name="networks"
            label="Static IP, bridges, and bonds"
            isChecked={cluster.hasStaticNetworks}
            isDisabled={isExternal}
            onChange={() => {
              set({ hasStaticNetworks: true });
            }}
          />
        </FormGroup>
        <FormGroup label="Encryption of installation disks" role="group" isInline>
          {groupsOf(count).map((group) => (
            <Checkbox
              key={group}
              id={`new-encrypt-${group}`}
              label={groups[group]}
              isChecked={encrypted.includes(group)}
              onChange={(_event, isOn) => {
                set({ encrypted: isOn ? [...encrypted, group] : encrypted.filter((one) => one !== group) });
              }}
            />
          ))}
        </FormGroup>
        {encrypted.length > 0 && (
          <FormGroup label="Key of the disks" role="radiogroup" isInline>
            <Radio
              id="new-tpm"
              name="encryption"
              label="TPM v2 of the host"
              isChecked={cluster.encryption === 'tpmv2'}
              onChange={() => {
                set({ encryption: 'tpmv2' });
              }}
            />
            <Radio
              id="new-with-tang"
              name="encryption"
              label="Tang servers"
              isChecked={cluster.encryption === 'tang'}
              onChange={() => {
                set({ encryption: 'tang' });
              }}
            />
          </FormGroup>
        )}
        {encrypted.length > 0 && cluster.encryption === 'tang' && (
          <FormGroup label="Tang servers" fieldId="new-tang" isRequired>
            <TextArea
              id="new-tang"
              rows={3}
              value={cluster.tang}
              validated={problemOf('tang') ? 'error' : 'default'}
              aria-describedby="new-tang-hint"
              onBlur={leave('tang')}
              onChange={(_event, value) => {
                set({ tang: value });
              }}
            />
            <Hint id="new-tang-hint" problem={problemOf('tang')}>
              One server a line: its URL, a space, its thumbprint.
            </Hint>
          </FormGroup>
        )}
        {failure && <Alert isInline variant="danger" title={failure} data-testid="failure" />}
        <ActionGroup>
          <Button type="submit" isLoading={isSending} isDisabled={isSending}>
            Next
          </Button>
          <LinkButton variant="link" to="/assisted-installer/clusters">
            Cancel
          </LinkButton>
        </ActionGroup>
      </Form>
    </div>
  );
};

/** What a field is for, or why its input is wrong. */
const Hint = ({ id, problem, children }: { id: string; problem: string; children: ReactNode }) => (
  <FormHelperText>
    <HelperText id={id} isLiveRegion>
      <HelperTextItem variant={problem ? 'error' : 'default'}>{problem || children}</HelperTextItem>
    </HelperText>
  </FormHelperText>
);
