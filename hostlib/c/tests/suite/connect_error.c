/* Prints the message of a communicator that cannot connect.
 *
 *   connect_error CONTROLLER TENANT TOKEN CA RENDEZVOUS      (CA and RENDEZVOUS may be empty)
 */
#include <netfold/netfold.h>
#include <stdio.h>

int main(int argc, char **argv) {
    netfold_builder *builder = NULL;
    netfold_comm *comm = NULL;
    if (argc != 6)
        return 2;
    const char *ca = argv[4], *rendezvous = argv[5];
    int linked = rendezvous[0] != '\0';
    netfold_result result = netfold_builder_new(&builder);
#define SET(call)                    \
    if (result == NETFOLD_RESULT_OK) \
    result = netfold_builder_set_##call
    SET(controller)(builder, argv[1]);
    SET(tenant)(builder, argv[2], argv[3]);
    SET(job)(builder, "train");
    SET(rank)(builder, linked ? 1 : 0);
    SET(world_size)(builder, linked ? 2 : 1);
    if (ca[0] != '\0')
        SET(controller_ca)(builder, ca);
    if (linked)
        SET(rendezvous)(builder, rendezvous);
    if (result != NETFOLD_RESULT_OK)
        return 3;
    result = netfold_builder_connect(builder, &comm);
    if (result == NETFOLD_RESULT_OK)
        return 4;
    printf("%s\n", netfold_last_error());
    return 0;
}
