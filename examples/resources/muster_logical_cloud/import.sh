terraform import muster_logical_cloud.prod team-a/prod
