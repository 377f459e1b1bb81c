/**
 * In place of the library's dialog that covers the page when a refresh failed: the banner says it (`shell/Away.tsx`),
 * and the page can be read on meanwhile.
 */
const ClusterPollingErrorModal = () => null;

export default ClusterPollingErrorModal;
