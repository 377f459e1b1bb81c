// Package registrytest runs Debian's docker-registry as a site's mirror, with TLS, a password and
// the layout of oc-mirror, and creates gaps in it. Only make test-mirror and make bench build its
// other files.
package registrytest
