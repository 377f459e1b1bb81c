import {
  ActionGroup,
  Alert,
  Button,
  Checkbox,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Radio,
  TextInput,
  Title,
} from '@patternfly/react-core';
import { useCallback, useEffect, useRef, useState, type FormEvent, type ReactNode } from 'react';
import { useNavigate } from 'react-router-dom-v5-compat';
import { LinkButton } from '../shell/LinkButton';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';
import { useAnswer } from '../shell/useAnswer';
import { useKept } from '../shell/useKept';
import { EncryptionFields } from './EncryptionFields';
import { Hint } from './Hint';
import type { ClusterRow } from './list';
import {
  canHave,
  canUse,
  controlPlanes,
  create,
  platforms,
  possible,
  problemsOf,
  readSupport,
  type NewCluster,
  type Platform,
  type Version,
} from './newCluster';
import { PullSecretFields } from './PullSecretFields';

type Props = { versions: Record<string, Version>; clusters: ClusterRow[]; hasPullSecret: boolean };

const steps = ['Cluster details', 'Operators', 'Host discovery', 'Storage', 'Networking', 'Review and install'];
const once = () => undefined;

const architecturesOf = (version: Version | undefined) => version?.cpu_architectures ?? ['x86_64'];

/** The first inputs: those that a person has left, as far as the site still offers them. */
const initial = (versions: Record<string, Version>, hasPullSecret: boolean, left?: NewCluster): NewCluster => {
  const [first = '', offered] =
    Object.entries(versions).find(([, version]) => version.default) ?? Object.entries(versions)[0] ?? [];
  const usual = { version: first, architecture: architecturesOf(offered)[0] ?? 'x86_64' };
  if (left) {
    const last = versions[left.version];
    const isOffered = last && architecturesOf(last).includes(left.architecture);
    return { ...left, ...(!isOffered && usual), usesSitePullSecret: hasPullSecret && left.pullSecret === '' };
  }
  return {
    ...{ name: '', domain: '', ...usual },
    ...{ controlPlanes: 3, platform: 'none', pullSecret: '', usesSitePullSecret: hasPullSecret },
    ...{ hasManifests: false, hasStaticNetworks: false, encrypted: [], encryption: 'tpmv2', tang: '' },
  };
};

/** The form of a new cluster. */
export const NewClusterForm = ({ versions, clusters, hasPullSecret }: Props) => {
  const {
    value: entered,
    keep,
    forget,
  } = useKept<NewCluster>('new-cluster', (last) => initial(versions, hasPullSecret, last));
  const [left, setLeft] = useState<string[]>([]);
  const { isRunning: isSending, run } = useAction();
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
  const { controlPlanes: count, platform } = cluster;
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
    keep({ ...entered, ...change });
  };
  const leave = (field: string) => () => {
    setLeft([...left, field]);
  };
  const problemOf = (field: string) => (left.includes(field) ? (problems[field] ?? '') : '');
  const send = async () => {
    setFailure('');
    try {
      // The next steps are loaded meanwhile. Showing them loads them again and reports an error.
      const nextSteps = import('../Installer').catch(() => undefined);
      const id = await create(cluster, support);
      forget();
      await nextSteps;
      if (!hasLeft.current) {
        navigate(`/assisted-installer/clusters/${id}`, { state: 'new' });
      }
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const wrong = Object.keys(problems);
    setLeft(wrong);
    if (wrong.length > 0) {
      form.current?.querySelector<HTMLElement>(`#new-${wrong[0] ?? ''}`)?.focus();
    } else {
      void run(send);
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
        <PullSecretFields
          cluster={cluster}
          hasSite={hasPullSecret}
          set={set}
          problem={problemOf('pullSecret')}
          onLeave={leave('pullSecret')}
        />
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
        <EncryptionFields cluster={cluster} set={set} problem={problemOf('tang')} onLeave={leave('tang')} />
        {failure && <Alert isInline variant="danger" title={failure} data-testid="failure" />}
        <ActionGroup>
          <Button type="submit" isLoading={isSending} isDisabled={isSending}>
            Next
          </Button>
          <LinkButton variant="link" to="/assisted-installer/clusters" onClick={forget}>
            Cancel
          </LinkButton>
        </ActionGroup>
      </Form>
    </div>
  );
};
