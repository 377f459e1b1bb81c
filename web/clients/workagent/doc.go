// Package workagent tests the appliance's broker and its events with the SDK of Open Cluster
// Management.
package workagent
