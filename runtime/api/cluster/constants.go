package cluster

const GroupName = "cluster.open-cluster-management.io"
const DefaultLeaseDurationSeconds = 60
