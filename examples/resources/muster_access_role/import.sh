terraform import muster_access_role.edit edit
