// Package conformancetest tests the appliance's registry with the conformance program of the OCI
// distribution specification.
package conformancetest
