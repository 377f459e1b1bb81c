/**
 * The modules of the Assisted Installer's library that the page replaces: module of the library ->
 * module in `src/uilib`. docs/page.md gives the reasons.
 */
export const replacements: Record<string, string> = {
  'common/api/assisted-service/InfraEnvsAPI.ts': 'InfraEnvsAPI.ts',
  'common/api/assisted-service/ManagedDomainsAPI.ts': 'ManagedDomainsAPI.ts',
  'common/api/assisted-service/NewFeatureSupportLevelsAPI.ts': 'NewFeatureSupportLevelsAPI.ts',
  'common/api/assisted-service/SupportedOpenshiftVersionsAPI.ts': 'SupportedOpenshiftVersionsAPI.ts',
  'common/components/clusterConfiguration/DownloadIso.tsx': 'DownloadIso.tsx',
  'common/components/clusterConfiguration/UploadSSH.tsx': 'UploadSSH.tsx',
  'common/components/clusters/PullSecret.tsx': 'PullSecret.tsx',
  'common/components/fetching/EventListFetch.tsx': 'EventListFetch.tsx',
  'common/components/ui/formik/validationSchemas.ts': 'validationSchemas.ts',
  'ocm/components/AddHosts/AddHosts.tsx': 'AddHosts.tsx',
  'ocm/components/clusterConfiguration/DiscoveryImageTypeDropdown.tsx': 'DiscoveryImageTypeDropdown.tsx',
  'ocm/components/clusterConfiguration/InformationAndAlerts.tsx': 'InformationAndAlerts.tsx',
  'ocm/components/clusterConfiguration/review/ReviewStep.tsx': 'ReviewStep.tsx',
  'ocm/components/clusterDetail/ClusterPollingErrorModal.tsx': 'ClusterPollingErrorModal.tsx',
  'ocm/components/clusterDetail/ClusterDetail.tsx': 'ClusterDetail.tsx',
  'ocm/components/clusters/Clusters.tsx': 'Clusters.tsx',
  'ocm/components/clusters/NewClusterPage.tsx': 'NewClusterPage.tsx',
  'ocm/components/clusters/AssistedInstallerHeader.tsx': 'AssistedInstallerHeader.tsx',
  'ocm/components/clusterWizard/ClusterWizard.tsx': 'ClusterWizard.tsx',
  'ocm/components/clusterWizard/disconnected/InstallDisconnectedSwitch.tsx': 'InstallDisconnectedSwitch.tsx',
  'ocm/hooks/useSetClusterPermissions.ts': 'useSetClusterPermissions.ts',
  'ocm/services/InfraEnvsService.ts': 'InfraEnvsService.ts',
};
