// Package ocm tests the local AMS API, and the test server for AMS, with the SDK of the ocm
// command.
package ocm
