/** The field for the pull secret. A cluster that exists has one, and the form of a new one is ours. */
const PullSecret = () => null;

export default PullSecret;
