import { ActionListItem, Bullseye, Button, Content, Flex, Spinner } from '@patternfly/react-core';
import type { Cluster } from '@openshift-assisted/types/assisted-installer-service';
import { useEffect } from 'react';
import { useDispatch } from 'react-redux';
import { useAlerts } from 'ui-lib/common/components/AlertsContextProvider';
import { ClusterWizardStep } from 'ui-lib/common/components/clusterWizard/ClusterWizardStep';
import { useOperatorSpecs } from 'ui-lib/common/components/operators/operatorSpecs';
import { useClusterWizardContext } from 'ui-lib/ocm/components/clusterWizard/ClusterWizardContext';
import ClusterWizardFooter from 'ui-lib/ocm/components/clusterWizard/ClusterWizardFooter';
import ClusterWizardNavigation from 'ui-lib/ocm/components/clusterWizard/ClusterWizardNavigation';
import { wizardStepNames } from 'ui-lib/ocm/components/clusterWizard/constants';
import { wizardStepsValidationsMap } from 'ui-lib/ocm/components/clusterWizard/wizardTransition';
import { forceReload } from 'ui-lib/ocm/store/slices/current-cluster/slice';
import { useMay } from '../access/AccessProvider';
import { install } from '../clusters/api';
import type { Blocker } from '../clusters/blockers';
import { Review } from '../clusters/Review';
import { useReviewShown } from '../clusters/reviewShown';
import { Trials } from '../clusters/Trials';
import { useReadiness } from '../clusters/useReadiness';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';

/**
 * The wizard's last step. The library's step shows names of checks instead of what to do, and has
 * neither the doctor's verdict nor the rehearsal.
 */
const ReviewStep = ({ cluster }: { cluster: Cluster }) => {
  const wizard = useClusterWizardContext();
  const { byKey: operators } = useOperatorSpecs();
  const { answer: readiness, refetch } = useReadiness(cluster.id);
  const [, setReviewShown] = useReviewShown();
  useEffect(() => {
    setReviewShown(true);
    return () => {
      setReviewShown(false);
    };
  }, [setReviewShown]);
  const stepOf = ({ key, group }: Blocker) => {
    const step = wizard.wizardStepIds.find((id) => {
      const { validationIds, groups } = wizardStepsValidationsMap[id].cluster;
      return (validationIds as string[]).includes(key) || (groups as (string | undefined)[]).includes(group);
    });
    return step && step !== 'review'
      ? {
          name: wizardStepNames[step],
          open: () => {
            wizard.setCurrentStepId(step);
          },
        }
      : undefined;
  };
  return (
    <ClusterWizardStep
      navigation={<ClusterWizardNavigation cluster={cluster} />}
      footer={<Footer cluster={cluster} />}
    >
      <Content component="h2">{wizardStepNames.review}</Content>
      {readiness ? (
        <Review
          readiness={readiness}
          isReady={cluster.status === 'ready'}
          operatorName={(name) => operators[name]?.title ?? name}
          stepOf={stepOf}
          onChange={refetch}
        />
      ) : (
        <Bullseye>
          <Spinner aria-label="Reading the cluster" />
        </Bullseye>
      )}
    </ClusterWizardStep>
  );
};

export default ReviewStep;

/** The button that starts the installation, beside the doctor's verdict and the rehearsal. */
const Footer = ({ cluster }: { cluster: Cluster }) => {
  const wizard = useClusterWizardContext();
  const mayInstall = useMay('operator');
  const { isStarting, needsManifests, start } = useInstallation(cluster);
  return (
    <>
      <Flex gap={{ default: 'gapMd' }} className="landfall-review-trials">
        <Trials id={cluster.id} isAutomatic />
      </Flex>
      <ClusterWizardFooter
        cluster={cluster}
        onBack={() => {
          wizard.moveBack();
        }}
        isSubmitting={isStarting}
        submittingText="Starting the installation"
        additionalActions={
          <ActionListItem>
            <Button
              name="install"
              data-testid="button-install-cluster"
              isDisabled={!mayInstall || isStarting || needsManifests || cluster.status !== 'ready'}
              onClick={() => void start()}
            >
              Install cluster
            </Button>
          </ActionListItem>
        }
      />
    </>
  );
};

/**
 * Starts the installation. After manifests made its preparation fail, they must be changed first:
 * the wizard's settings, which the step of the manifests changes, remember it.
 */
const useInstallation = (cluster: Cluster) => {
  const { uiSettings, updateUISettings } = useClusterWizardContext();
  const { addAlert, clearAlerts } = useAlerts();
  const dispatch = useDispatch();
  const { isRunning, run } = useAction();
  const preparation = cluster['last-installation-preparation'];
  const hasFailed = preparation?.status === 'failed' && preparation.reason?.includes('manifest') === true;
  const updated = uiSettings?.customManifestsUpdated;
  useEffect(() => {
    if (hasFailed && updated === undefined) {
      void updateUISettings({ customManifestsUpdated: false });
    }
  }, [hasFailed, updated, updateUISettings]);
  const start = async () => {
    clearAlerts();
    try {
      await install(cluster.id);
      dispatch(forceReload());
      if (updated) {
        void updateUISettings({ customManifestsUpdated: undefined });
      }
    } catch (error) {
      addAlert({ title: 'The installation was not started', message: sentenceOf(error) });
    }
  };
  return { isStarting: isRunning, needsManifests: hasFailed && !updated, start: () => run(start) };
};
