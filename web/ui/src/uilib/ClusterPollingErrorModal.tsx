/**
 * Replaces the library's dialog that covers the page after a failed refresh: the banner
 * (`shell/Away.tsx`) reports the failure, and the page stays readable.
 */
const ClusterPollingErrorModal = () => null;

export default ClusterPollingErrorModal;
