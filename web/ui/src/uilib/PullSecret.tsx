/** The field for the pull secret: the library's forms change clusters only, which have one. */
const PullSecret = () => null;

export default PullSecret;
